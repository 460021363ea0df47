"""Access to Recollect's source code for the rules."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "recollect"


def files() -> list[str]:
    """Every Python file under `src/recollect`, relative to it."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text("utf-8"), file)


def texts(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Every string in a tree with its line, without docstrings; f-strings in their parts."""
    documentation = {
        id(each.body[0].value)
        for each in ast.walk(node)
        if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and each.body
        and isinstance(each.body[0], ast.Expr)
    }
    for each in ast.walk(node):
        match each:
            case ast.Constant(value=str() as text) if id(each) not in documentation:
                yield text, each.lineno
            case _:
                pass
