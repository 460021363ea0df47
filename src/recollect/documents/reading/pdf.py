"""The text of a PDF, page by page."""

import io
import logging

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from recollect.documents.reading.values import MAX_CHARACTERS, UnreadableDocument

_MAX_PAGES = 5_000

# The library writes warnings about the file to standard error.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def pages_of_pdf(data: bytes) -> list[str]:
    """Return the text of each page; empty for a page that cannot be read."""
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("The PDF is encrypted and needs a password.")
        count = len(reader.pages)
    except (DependencyError, FileNotDecryptedError) as error:
        raise UnreadableDocument("The PDF is encrypted and needs a password.") from error
    except _DAMAGES as error:
        raise UnreadableDocument("The PDF is damaged.") from error
    if count > _MAX_PAGES:
        raise UnreadableDocument(f"The PDF has more than {_MAX_PAGES:,} pages.")
    pages: list[str] = []
    size = 0
    for number in range(count):
        pages.append(_page(reader, number))
        size += len(pages[-1])
        if size > MAX_CHARACTERS:
            raise UnreadableDocument(
                f"The PDF has more than {MAX_CHARACTERS:,} characters of text."
            )
    return pages


def _page(reader: PdfReader, number: int) -> str:
    try:
        return reader.pages[number].extract_text().strip()
    except _DAMAGES:
        return ""


# Errors that the parser raises for damaged files, besides its own.
_DAMAGES = (
    PyPdfError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
