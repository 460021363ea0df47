"""CSV: a row a memory, under a line of names; columns without a meaning of ours are metadata."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found
from recollect.trade.making import Maker, moment, text_of

# What columns are called elsewhere.
_MEANS = {
    "content": ("content", "text", "memory", "value", "fact", "note"),
    "id": ("id", "uuid", "memory_id"),
    "key": ("key",),
    "summary": ("summary",),
    "category": ("category", "type", "kind"),
    "tags": ("tags", "labels"),
    "importance": ("importance", "priority"),
    "pinned": ("pinned",),
    "subject": ("subject", "user_id", "user"),
    "at": ("created_at", "date", "timestamp", "created"),
    "updated_at": ("updated_at", "updated"),
    "expires_at": ("expires_at", "expiration_date"),
}
_YES = {"1", "true", "yes", "y", "x"}


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every row of every CSV file."""
    for name in found.names("*.csv", "*.tsv"):
        try:
            yield from _file(name, found.text(name), make)
        except Unreadable as error:
            yield Refusal(name, "memory", error.message)


def _file(name: str, text: str, make: Maker) -> Iterator[Line | Refusal]:
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    head = next(rows, list[str]())
    names = [each.strip() for each in head]
    columns = _columns(names)
    if "content" not in columns.values():
        wanted = ", ".join(f"`{each}`" for each in _MEANS["content"])
        raise Unreadable(f"Its first line names no column for the text, such as {wanted}.")
    while True:
        where = f"{name}, line {rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Refusal(where, "memory", f"no CSV: {error}")
            continue
        if any(cell.strip() for cell in row):
            yield _memory(where, names, columns, row, make)


def _columns(names: list[str]) -> dict[int, str]:
    """What each column means; of two that mean the same the first does."""
    found: dict[int, str] = {}
    for number, name in enumerate(names):
        plain = name.lower().replace(" ", "_")
        for meaning, spellings in _MEANS.items():
            if plain in spellings and meaning not in found.values():
                found[number] = meaning
    return found


def _memory(
    where: str, names: list[str], columns: Mapping[int, str], row: list[str], make: Maker
) -> Line | Refusal:
    if len(row) > len(names):
        return Refusal(where, "memory", f"it has {len(row)} cells under {len(names)} names")
    told = {columns[number]: cell for number, cell in enumerate(row) if number in columns}
    content = text_of(told.get("content"))
    if content is None:
        return Refusal(where, "memory", "it has no text")
    importance: float | None = None
    if given := text_of(told.get("importance")):
        importance = _importance(given)
        if importance is None:
            return Refusal(where, "memory", "`importance` is no number from 0 to 10")
    expires_at = moment(told.get("expires_at"))
    others = {
        names[number]: cell
        for number, cell in enumerate(row)
        if number not in columns and names[number] and cell
    }
    subject = text_of(told.get("subject"))
    more: dict[str, Any] = {
        "summary": text_of(told.get("summary")),
        "key": text_of(told.get("key")),
        "tags": _tags(told.get("tags", "")),
        "pinned": told.get("pinned", "").strip().lower() in _YES,
        "subject": subject,
        "expires_at": expires_at and expires_at.isoformat(),
        "metadata": others,
    }
    return make.memory(
        where,
        content,
        text_of(told.get("id")) or f"{subject}\x1f{told.get('key', '')}\x1f{content}",
        at=moment(told.get("at")),
        updated_at=moment(told.get("updated_at")),
        category=text_of(told.get("category")),
        importance=importance,
        **more,
    )


def _importance(text: str) -> float | None:
    """From 0 to 1, or from 1 to 10."""
    try:
        number = float(text)
    except ValueError:
        return None
    if 0 <= number <= 1:
        return number
    return number / 10 if 1 < number <= 10 else None


def _tags(text: str) -> list[str]:
    parts = text.replace(";", ",").strip("[]").split(",")
    return [tag for part in parts if (tag := part.strip(" '\""))]
