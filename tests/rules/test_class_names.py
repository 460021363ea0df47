"""No two classes share a name, so that a name says which class is meant without its import."""

import ast
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench")


def classes() -> dict[str, list[str]]:
    """Where each class of the project is defined, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{path.relative_to(PROJECT)}:{node.lineno}")
    return found


def test_no_two_classes_share_a_name() -> None:
    places_by_name = classes()
    shared = {name: places for name, places in places_by_name.items() if len(places) > 1}
    folders = {place.split("/")[0] for places in places_by_name.values() for place in places}

    assert shared == {}
    assert folders == set(FOLDERS)
