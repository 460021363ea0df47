"""The text of a DOCX file: the main part of its archive, read as a stream.

A library that builds the whole document took 826 MiB for 404 KiB of hostile input.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from xml.parsers import expat

from recollect.documents.reading.values import MAX_CHARACTERS, UnreadableDocument

_DOCUMENT = "word/document.xml"
_WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_BETWEEN = " "

# Limits that no real document reaches.
_MAX_ENTRIES = 2_000
_MAX_UNPACKED = 200 * 1024 * 1024
# XML compresses well, but only meaningless text compresses better than this.
_MAX_RATIO = 100
_MIN_CHECKED = 1024 * 1024
_READ_BYTES = 64 * 1024

_HEADING = re.compile(r"(?:heading|title|überschrift|titre|título)\s*([1-6]?)", re.IGNORECASE)


def is_docx(data: bytes) -> bool:
    """Whether this archive is a DOCX file; raise `UnreadableDocument` if it unpacks to too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_directory(entries, len(data))
            return any(each.filename == _DOCUMENT for each in entries)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise UnreadableDocument("The archive is damaged.") from error


def _check_directory(entries: list[zipfile.ZipInfo], packed: int) -> None:
    if len(entries) > _MAX_ENTRIES:
        raise UnreadableDocument(f"The archive has more than {_MAX_ENTRIES} files.")
    total = sum(each.file_size for each in entries)
    is_thin = total > _MIN_CHECKED and total > _MAX_RATIO * packed
    if total > _MAX_UNPACKED or is_thin:
        raise UnreadableDocument("The archive unpacks to far more than it seems to hold.")


def text_of_docx(data: bytes) -> str:
    """Return the document's paragraphs and tables, with headings as in Markdown."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=_BETWEEN)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.say
    try:
        for part in _unpacked(data):
            parser.Parse(part, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise UnreadableDocument("The document is damaged.") from error
    return reader.text()


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the main part, counting its bytes: an archive may lie about its sizes."""
    size = 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_DOCUMENT) as part:
        while found := part.read(_READ_BYTES):
            size += len(found)
            if size > _MAX_UNPACKED:
                raise UnreadableDocument("The archive unpacks to far more than it seems to hold.")
            yield found


def _refuse(*_: object) -> None:
    raise UnreadableDocument("The document declares entities, which no word processor writes.")


class _Reader:
    """Collects the paragraphs of a document from the events of an XML parser."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._said: list[str] = []
        self._size = 0
        self._style = ""
        self._is_text = False
        self._cells: list[str] | None = None
        self._is_list = False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        match _local(name):
            case "p":
                self._said, self._style, self._is_list = [], "", False
            case "pStyle":
                self._style = next(
                    (value for key, value in attributes.items() if _local(key) == "val"), ""
                )
            case "numPr":
                self._is_list = True
            case "t":
                self._is_text = True
            case "tab":
                self._said.append("\t")
            case "br" | "cr":
                self._said.append("\n")
            case "tr":
                self._cells = []
            case _:
                pass

    def end(self, name: str) -> None:
        match _local(name):
            case "t":
                self._is_text = False
            case "p":
                self._put()
            case "tr":
                row, self._cells = self._cells or [], None
                self._add(" | ".join(row))
            case _:
                pass

    def say(self, text: str) -> None:
        if not self._is_text:
            return
        self._size += len(text)
        if self._size > MAX_CHARACTERS:
            raise UnreadableDocument(
                f"The document has more than {MAX_CHARACTERS:,} characters of text."
            )
        self._said.append(text)

    def text(self) -> str:
        return "\n\n".join(self._blocks)

    def _put(self) -> None:
        text = "".join(self._said).strip()
        self._said = []
        if self._cells is not None:
            self._cells += [text] if text else []
            return
        heading = _HEADING.match(self._style)
        if text and heading:
            text = f"{'#' * int(heading[1] or 1)} {text}"
        elif text and self._is_list:
            text = f"- {text}"
        self._add(text)

    def _add(self, block: str) -> None:
        if block.strip():
            self._blocks.append(block)


def _local(name: str) -> str:
    """Return an element's local name if it belongs to a word processor's namespace."""
    space, _, local = name.rpartition(_BETWEEN)
    return local if space in {_WORDS, _STRICT} else ""
