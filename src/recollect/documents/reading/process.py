"""Read a document in a child process, which is killed if it takes too much time or memory."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

from recollect.documents.reading.values import (
    MAX_CHARACTERS,
    REFUSED,
    Reading,
    UnreadableDocument,
    parse,
)

# More than the process's own CPU limit, for a busy machine.
READ_DEADLINE = timedelta(seconds=90)

# The whole text with up to four bytes per character, plus a tenth of overlap and the JSON around
# it.
_MAX_OUTPUT = 5 * MAX_CHARACTERS
_READ_BYTES = 256 * 1024
_EXHAUSTED = "Reading it took too much time or memory."


async def read_document(
    name: str, pieces: AsyncIterator[bytes], *, deadline: timedelta = READ_DEADLINE
) -> Reading:
    """Return the document, read by a confined process; raise `UnreadableDocument` on failure."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "recollect.documents.reading.child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # No keys or addresses: the process does not need them.
        env={"LANG": "C.UTF-8"},
        cwd="/",
    )
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            _, output = await asyncio.gather(
                _send_document(process, name, pieces), _receive_output(process)
            )
            code = await process.wait()
    except TimeoutError:
        raise UnreadableDocument(_EXHAUSTED) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code == 0:
        return await asyncio.to_thread(parse, output)
    if code == REFUSED:
        raise UnreadableDocument(output.decode("utf-8", "replace"))
    if code in {-signal.SIGTERM, -signal.SIGINT}:
        raise asyncio.CancelledError  # the server is shutting down; the document is not to blame
    raise UnreadableDocument(_EXHAUSTED)


async def _send_document(
    process: asyncio.subprocess.Process, name: str, pieces: AsyncIterator[bytes]
) -> None:
    assert process.stdin
    # A process that has ended reads no more; its exit code says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        label = name.replace("\n", " ").encode("utf-8", "replace")
        process.stdin.write(label + b"\n")
        async for piece in pieces:
            process.stdin.write(piece)
            await process.stdin.drain()
    process.stdin.close()


async def _receive_output(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout
    output = bytearray()
    while part := await process.stdout.read(_READ_BYTES):
        output += part
        if len(output) > _MAX_OUTPUT:
            raise UnreadableDocument(_EXHAUSTED)
    return bytes(output)
