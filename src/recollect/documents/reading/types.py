"""What a file is, by its bytes. A name only tells one kind of text from another."""

import codecs
import re
from enum import Enum
from pathlib import PurePosixPath

from recollect.documents.reading.values import BINARY


class Type(Enum):
    """What can be read, each with the media type it is stored and sent out as."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    HTML = "text/html"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"
    UNKNOWN = BINARY


# Kept and listed by their names; there is no text in them.
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"PK\x03\x04": "application/zip",
    b"PK\x05\x06": "application/zip",
}
_PDF = b"%PDF-"
_ZIP = b"PK\x03\x04"
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html\b)",
    re.IGNORECASE | re.DOTALL,
)
_SUFFIXES = {
    ".md": Type.MARKDOWN,
    ".markdown": Type.MARKDOWN,
    ".mdx": Type.MARKDOWN,
    ".html": Type.HTML,
    ".htm": Type.HTML,
    ".xhtml": Type.HTML,
}
# Unprintable ones that no text has; form feeds and escapes occur in logs.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# Some writers put a few bytes before the mark.
_PDF_WITHIN = 1024


def is_pdf(data: bytes) -> bool:
    """Whether these bytes are a PDF."""
    return _PDF in data[:_PDF_WITHIN]


def is_zip(data: bytes) -> bool:
    """Whether these bytes are a zip archive, which a DOCX is."""
    return data.startswith(_ZIP)


def media_type_of_binary(data: bytes) -> str:
    """What to call bytes that hold no text."""
    return next((name for magic, name in _MAGIC.items() if data.startswith(magic)), BINARY)


def decoded(data: bytes) -> str | None:
    """The text that these bytes are; None when they are none."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return _decoded(data, encoding)
    if _CONTROLS.search(data):
        return None
    text = _decoded(data, "utf-8")
    return _decoded(data, "cp1252") if text is None else text


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def type_of_text(text: str, name: str) -> Type:
    """Which kind of text it is."""
    if _HTML.match(text[:4096]):
        return Type.HTML
    return _SUFFIXES.get(PurePosixPath(name.lower()).suffix, Type.TEXT)
