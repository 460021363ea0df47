"""`docs/configuration.md` lists every setting, as described in `settings.py`."""

import dataclasses
from typing import Any

from recollect.core.settings import PREFIX, list_settings
from tests.support.markdown_docs import PROJECT


def test_the_documented_table_matches_the_settings() -> None:
    text = (PROJECT / "docs" / "configuration.md").read_text("utf-8")
    rows = [_cells(line) for line in text.splitlines() if line.startswith("| `")]

    written = [row for row in rows if len(row) == 4]

    assert written == [
        [f"`{name}`", _variable(name), _default(default), about]
        for name, about, default in list_settings()
    ]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _variable(name: str) -> str:
    is_table = name in {"embedders", "upstreams", "prices"}
    return "file only" if is_table else f"`{PREFIX}{name.upper()}`"


def _default(default: Any) -> str:
    match default:
        case None | dataclasses.MISSING:
            return "not set"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"
