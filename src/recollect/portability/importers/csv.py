"""CSV files: one memory per row; columns with unknown names become metadata."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import SourceFiles
from recollect.portability.importers.record_maker import RecordMaker, as_text, parse_time
from recollect.portability.importing import ImportLine, Refusal

# The column names that other systems use for each field.
_COLUMN_NAMES = {
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
_TRUE = {"1", "true", "yes", "y", "x"}


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every row of every CSV file."""
    for name in found.names("*.csv", "*.tsv"):
        try:
            yield from _read_file(name, found.text(name), make)
        except UnreadableFile as error:
            yield Refusal(name, "memory", error.message)


def _read_file(name: str, text: str, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    head = next(rows, list[str]())
    names = [each.strip() for each in head]
    columns = _columns(names)
    if "content" not in columns.values():
        wanted = ", ".join(f"`{each}`" for each in _COLUMN_NAMES["content"])
        raise UnreadableFile(f"Its first line has no column for the text, such as {wanted}.")
    while True:
        where = f"{name}, line {rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Refusal(where, "memory", f"not valid CSV: {error}")
            continue
        if any(cell.strip() for cell in row):
            yield _memory(where, names, columns, row, make)


def _columns(names: list[str]) -> dict[int, str]:
    """Return the field of each column; of two columns for one field, the first counts."""
    found: dict[int, str] = {}
    for number, name in enumerate(names):
        plain = name.lower().replace(" ", "_")
        for field, column_names in _COLUMN_NAMES.items():
            if plain in column_names and field not in found.values():
                found[number] = field
    return found


def _memory(
    where: str, names: list[str], columns: Mapping[int, str], row: list[str], make: RecordMaker
) -> ImportLine | Refusal:
    if len(row) > len(names):
        return Refusal(where, "memory", f"it has {len(row)} cells but only {len(names)} columns")
    fields = {columns[number]: cell for number, cell in enumerate(row) if number in columns}
    content = as_text(fields.get("content"))
    if content is None:
        return Refusal(where, "memory", "it has no text")
    importance: float | None = None
    if given := as_text(fields.get("importance")):
        importance = _importance(given)
        if importance is None:
            return Refusal(where, "memory", "`importance` is not a number from 0 to 10")
    expires_at = parse_time(fields.get("expires_at"))
    others = {
        names[number]: cell
        for number, cell in enumerate(row)
        if number not in columns and names[number] and cell
    }
    subject = as_text(fields.get("subject"))
    more: dict[str, Any] = {
        "summary": as_text(fields.get("summary")),
        "key": as_text(fields.get("key")),
        "tags": _tags(fields.get("tags", "")),
        "pinned": fields.get("pinned", "").strip().lower() in _TRUE,
        "subject": subject,
        "expires_at": expires_at and expires_at.isoformat(),
        "metadata": others,
    }
    return make.memory(
        where,
        content,
        as_text(fields.get("id")) or f"{subject}\x1f{fields.get('key', '')}\x1f{content}",
        at=parse_time(fields.get("at")),
        updated_at=parse_time(fields.get("updated_at")),
        category=as_text(fields.get("category")),
        importance=importance,
        **more,
    )


def _importance(text: str) -> float | None:
    """Parse an importance from 0 to 1, or from 1 to 10."""
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
