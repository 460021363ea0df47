"""Queries are the lowest layer of every subject: they import `core`, `db` and other queries."""

import ast

from tests.rules.source import files, tree

# Pure arithmetic on the results of a statement.
PURE = {"recollect.keywords.bm25"}


def is_query(module: str) -> bool:
    return "queries" in module.split(".")


def test_queries_import_only_core_db_and_queries() -> None:
    found = [
        f"{file}: {node.module}"
        for file in files()
        if "/queries/" in file or file.endswith("/queries.py")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("recollect.")
        and not node.module.startswith(("recollect.core.", "recollect.db"))
        and not is_query(node.module)
        and node.module not in PURE
    ]

    assert found == []
