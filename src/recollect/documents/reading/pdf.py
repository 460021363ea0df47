"""The text of a PDF, page by page."""

import io
import logging

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from recollect.documents.reading.values import MOST_CHARACTERS, UnreadableDocument

_MOST_PAGES = 5_000

# It writes whatever it finds odd in a file to standard error.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def pages_of_pdf(data: bytes) -> list[str]:
    """What each page says; a page that cannot be read says nothing."""
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("It is encrypted and needs a password.")
        count = len(reader.pages)
    except (DependencyError, FileNotDecryptedError) as error:
        raise UnreadableDocument("It is encrypted and needs a password.") from error
    except _DAMAGES as error:
        raise UnreadableDocument("The PDF is damaged.") from error
    if count > _MOST_PAGES:
        raise UnreadableDocument(f"It has more than {_MOST_PAGES:,} pages.")
    pages: list[str] = []
    size = 0
    for number in range(count):
        pages.append(_page(reader, number))
        size += len(pages[-1])
        if size > MOST_CHARACTERS:
            raise UnreadableDocument(f"It holds more than {MOST_CHARACTERS:,} characters of text.")
    return pages


def _page(reader: PdfReader, number: int) -> str:
    try:
        return reader.pages[number].extract_text().strip()
    except _DAMAGES:
        return ""


# What its parser stumbles over in damaged files, besides its own errors.
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
