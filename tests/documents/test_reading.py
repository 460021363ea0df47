"""Reading: types from the bytes, text extraction, lossless chunks, and confinement."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.documents.reading.child import read
from recollect.documents.reading.chunks import chunks_of_markdown, chunks_of_text
from recollect.documents.reading.process import read_document
from recollect.documents.reading.types import Type
from recollect.documents.reading.values import (
    CHUNK_CHARACTERS,
    Reading,
    TextPiece,
    UnreadableDocument,
)
from tests.support.sample_files import (
    UNTIDY,
    archive,
    docx,
    entity_bomb,
    in_chunks,
    paragraph,
    pdf,
    pdf_of,
)

pytestmark = pytest.mark.anyio

PAGE = """<!DOCTYPE html><html><head><title>Tea</title><style>p{}</style></head><body>
<div>First</div>second <b>bold</b><p>Third</p><ul><li>one</li><li>two</li></ul>
<table><tr><td>a</td><td>b</td></tr></table><pre>x =  1</pre><script>steal()</script></body></html>"""


async def in_process(name: str, data: bytes) -> Reading:
    return await read_document(name, in_chunks(data))


@pytest.mark.parametrize(
    ("name", "data", "media_type", "pieces"),
    [
        ("a.txt", b"Plain words.", "text/plain", [TextPiece(0, "Plain words.")]),
        ("a.txt", "Grüße".encode("cp1252"), "text/plain", [TextPiece(0, "Grüße")]),
        ("a.txt", "Grüße".encode("utf-16"), "text/plain", [TextPiece(0, "Grüße")]),
        (
            "a.py",
            b"def f():\n    return 1\n",
            "text/plain",
            [TextPiece(0, "def f():\n    return 1\n")],
        ),
        ("a.md", b"# Tea\n\nGreen.", "text/markdown", [TextPiece(0, "# Tea\n\nGreen.", "Tea")]),
        (
            "whatever.pdf",
            PAGE.encode(),
            "text/html",
            [
                TextPiece(
                    0,
                    "# Tea\n\nFirst\n\nsecond bold\n\nThird\n\n- one\n\n- two\n\na | b\n\nx =  1",
                    "Tea",
                )
            ],
        ),
        (
            "no suffix",
            docx(paragraph("Tea", "Heading1") + paragraph("Green.")),
            Type.DOCX.value,
            [TextPiece(0, "# Tea\n\nGreen.", "Tea")],
        ),
        (
            "a.txt",
            pdf("Green tea", "Black tea"),
            "application/pdf",
            [TextPiece(0, "Green tea\n\nBlack tea", page=1)],
        ),
        ("a.txt", UNTIDY, "application/octet-stream", []),
        ("a.docx", archive(inner=archive(more="x")), "application/zip", []),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "image/png", []),
    ],
)
async def test_S62_the_bytes_decide_the_type_of_a_file(
    name: str, data: bytes, media_type: str, pieces: list[TextPiece]
) -> None:
    assert await in_process(name, data) == Reading(media_type, pieces)


async def test_a_pdf_without_text_is_stored_with_a_note() -> None:
    assert await in_process("scan.pdf", pdf("")) == Reading(
        "application/pdf", [], "No text was found in this document."
    )


THIN = docx(paragraph("a") * 1_000_000)
SLOW = pdf_of([b"BT /F1 12 Tf " + b"(a) Tj T* " * 2_000_000 + b"ET"])


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("bomb.docx", THIN, "The archive unpacks to far more than it seems to hold."),
        (
            "entities.docx",
            entity_bomb(),
            "The document declares entities, which no word processor writes.",
        ),
        ("cut.docx", docx(paragraph("a"))[:150], "The archive is damaged."),
        ("open.docx", docx("<w:p>"), "The document is damaged."),
        ("cut.pdf", pdf("a")[:80], "The PDF is damaged."),
    ],
)
async def test_S62_malicious_or_damaged_documents_are_rejected(
    name: str, data: bytes, why: str
) -> None:
    with pytest.raises(UnreadableDocument) as refused:
        await in_process(name, data)

    assert str(refused.value) == why


async def test_S62_a_reader_that_takes_too_long_is_stopped() -> None:
    reading = read_document("slow.pdf", in_chunks(SLOW), deadline=timedelta(seconds=0.6))

    with pytest.raises(UnreadableDocument, match="too much time or memory"):
        await reading


@pytest.mark.parametrize(
    ("act", "ending"),
    [
        ("import socket; socket.socket()", "PermissionError"),
        ("import subprocess; subprocess.run(['true'])", "PermissionError"),
        ("open('/tmp/written-by-a-reader', 'w')", "PermissionError"),
        ("import os; os.remove('/tmp/other-file')", "PermissionError"),
        ("x = bytearray(600 * 1024 * 1024)", "MemoryError"),
    ],
)
async def test_S62_a_reader_cannot_use_the_network_start_programs_or_change_files(
    act: str, ending: str
) -> None:
    code = f"from recollect.documents.reading.confine import confine; confine(); {act}"

    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert ended.returncode != 0
    assert ending in ended.stderr


async def test_S62_the_kernel_refuses_a_socket_even_to_native_code() -> None:
    # Through the C library, like hijacked native code, not through the interpreter.
    code = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        "from recollect.documents.reading.confine import _refuse_calls; _refuse_calls(); "
        f"print(libc.socket({int(socket.AF_INET)}, {int(socket.SOCK_STREAM)}, 0), ctypes.get_errno())"
    )

    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "-1 1\n"


def rejoined(pieces: list[TextPiece]) -> str:
    text, end = "", 0
    for piece in pieces:
        text += piece.content[max(end - piece.start, 0) :]
        end = piece.start + len(piece.content)
    return text


written = st.lists(
    st.text(min_size=0, max_size=30)
    | st.sampled_from(["\n\n", "\n# Head\n", "```\n", " ", "wörter "]),
    max_size=40,
).map(lambda parts: "".join(parts) * 40)


@given(text=written, cut=st.sampled_from([chunks_of_markdown, chunks_of_text]))
def test_joined_chunks_equal_the_text(text: str, cut: Callable[[str], list[TextPiece]]) -> None:
    pieces = cut(text)

    assert rejoined(pieces) == text
    assert all(len(each.content) <= CHUNK_CHARACTERS for each in pieces)


def test_a_chunk_has_the_headings_above_it_but_no_comments_of_code() -> None:
    long = "word " * 400
    text = f"# Guide\n\n{long}\n\n## Set-up\n\n{long}\n\n```\n# a comment\n```\n\n{long}"

    assert {each.heading for each in read("guide.md", text.encode()).pieces} == {
        "Guide",
        "Guide > Set-up",
    }
