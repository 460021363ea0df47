"""Files to upload: valid ones of each kind, and malicious ones."""

import io
import zipfile
import zlib
from collections.abc import AsyncIterator

from pypdf import PdfWriter

from recollect.core.domain import Caller, Document
from recollect.documents.documents import NewDocument, add_document
from recollect.engine import Engine
from recollect.worker import Worker

WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
UNTIDY = b"\x00\x01\x02 plover \xff\xfe\x00"


async def in_chunks(data: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    """The bytes in chunks, as they arrive over a network."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def upload(engine: Engine, caller: Caller, name: str, data: bytes | str) -> Document:
    """Upload a document; a job will read it."""
    content = data.encode() if isinstance(data, str) else data
    return await add_document(engine, caller, NewDocument(name), in_chunks(content))


async def run_jobs(engine: Engine) -> None:
    """Run all queued jobs."""
    await Worker(engine, slots=2).run_until_empty()


def archive(**files: str | bytes) -> bytes:
    """A zip of these files. A double underscore in a name becomes a slash."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/"), content)
    return found.getvalue()


def paragraph(text: str, style: str = "") -> str:
    look = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{look}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str, before: str = "") -> bytes:
    """A DOCX document with this body."""
    xml = f"{before}<w:document {WORDS}><w:body>{body}</w:body></w:document>"
    return archive(**{"word__document.xml": xml})


def pdf(*pages: str) -> bytes:
    """A PDF with a line on each page."""
    return pdf_of([f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET".encode() for page in pages])


def pdf_of(streams: list[bytes]) -> bytes:
    """A PDF whose pages draw these streams."""
    pages = [4 + 2 * number for number in range(len(streams))]
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{' '.join(f'{each} 0 R' for each in pages)}]/Count {len(pages)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, stream in zip(pages, streams, strict=True):
        packed = zlib.compress(stream)
        objects += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>".encode(),
            f"<</Length {len(packed)}/Filter/FlateDecode>>stream\n".encode()
            + packed
            + b"\nendstream",
        ]
    out = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + each + b"\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    return (
        out
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
        ).encode()
    )


def entity_bomb() -> bytes:
    """A DOCX with nested entities that expand to a billion words."""
    entities = "".join(
        f'<!ENTITY {chr(98 + level)} "{f"&{chr(97 + level)};" * 10}">' for level in range(9)
    )
    return docx(paragraph("&i;"), before=f'<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">{entities}]>')


def locked_pdf(page: str) -> bytes:
    """A PDF that is encrypted with a password."""
    made = PdfWriter(clone_from=io.BytesIO(pdf(page)))
    made.encrypt("a password", algorithm="RC4-128")
    found = io.BytesIO()
    made.write(found)
    return found.getvalue()
