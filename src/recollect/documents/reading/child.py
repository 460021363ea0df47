"""The process that reads one document: its name and bytes come in, its chunks go out.

It runs confined and ends after one document: `python -m recollect.documents.reading.child`.
"""

import sys
from collections.abc import Callable

from recollect.documents.reading.chunks import chunks_of_markdown, chunks_of_pages, chunks_of_text
from recollect.documents.reading.confine import confine
from recollect.documents.reading.docx import is_docx, text_of_docx
from recollect.documents.reading.html import text_of_html
from recollect.documents.reading.pdf import pages_of_pdf
from recollect.documents.reading.types import (
    Type,
    decoded,
    is_pdf,
    is_zip,
    media_type_of_binary,
    type_of_text,
)
from recollect.documents.reading.values import (
    REFUSED,
    Reading,
    TextPiece,
    UnreadableDocument,
    serialise,
)

_EMPTY = "No text was found in this document."


def read(name: str, data: bytes) -> Reading:
    """Return the document in chunks; raise `UnreadableDocument` if it is damaged."""
    if is_pdf(data):
        return _reading(Type.PDF, chunks_of_pages([_clean(page) for page in pages_of_pdf(data)]))
    if is_zip(data) and is_docx(data):
        return _reading(Type.DOCX, chunks_of_markdown(_clean(text_of_docx(data))))
    text = decoded(data)
    if text is None:
        return Reading(media_type_of_binary(data))
    kind = type_of_text(text, name)
    return _reading(kind, _READERS[kind](_clean(text)))


_READERS: dict[Type, Callable[[str], list[TextPiece]]] = {
    Type.HTML: lambda text: chunks_of_markdown(text_of_html(text)),
    Type.MARKDOWN: chunks_of_markdown,
    Type.TEXT: chunks_of_text,
}


def _reading(kind: Type, pieces: list[TextPiece]) -> Reading:
    said = [piece for piece in pieces if piece.content.strip()]
    return Reading(kind.value, said, None if said else _EMPTY)


def _clean(text: str) -> str:
    """Return the text without what PostgreSQL cannot store: NUL and unpaired surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def main() -> int:
    """Read a line with the name, then the bytes, from standard input; write the result."""
    confine()
    name = sys.stdin.buffer.readline().decode("utf-8", "replace").rstrip("\n")
    try:
        answer = serialise(read(name, sys.stdin.buffer.read()))
    except UnreadableDocument as failure:
        sys.stdout.buffer.write(str(failure).encode())
        return REFUSED
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
