"""Detect the type of a file by its bytes. The name only distinguishes kinds of text."""

import codecs
import re
from enum import Enum
from pathlib import PurePosixPath

from recollect.documents.reading.values import BINARY


class Type(Enum):
    """The types that can be read, each with its media type."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    HTML = "text/html"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"
    UNKNOWN = BINARY


# Stored and listed by name; they contain no text.
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
# Control characters that no text contains. Form feeds and escapes occur in logs.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# Some programs write a few bytes before the signature.
_PDF_WITHIN = 1024


def is_pdf(data: bytes) -> bool:
    """Whether these bytes are a PDF."""
    return _PDF in data[:_PDF_WITHIN]


def is_zip(data: bytes) -> bool:
    """Whether these bytes are a zip archive, which a DOCX is."""
    return data.startswith(_ZIP)


def media_type_of_binary(data: bytes) -> str:
    """Return the media type of bytes without text."""
    return next((name for magic, name in _MAGIC.items() if data.startswith(magic)), BINARY)


def decoded(data: bytes) -> str | None:
    """Return the text of these bytes; None if they are not text."""
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
    """Return the kind of a text."""
    if _HTML.match(text[:4096]):
        return Type.HTML
    return _SUFFIXES.get(PurePosixPath(name.lower()).suffix, Type.TEXT)
