"""Has a document read by a process of its own, which is ended when it takes too much."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

from recollect.documents.reading.values import (
    MOST_CHARACTERS,
    REFUSED,
    Reading,
    UnreadableDocument,
    from_written,
)

# Beyond what the process may spend on its own, for a machine that is busy with other things.
READ_DEADLINE = timedelta(seconds=90)

# The whole text, in at most four bytes a character, with a tenth said twice and quotes around it.
_MOST_OUTPUT = 5 * MOST_CHARACTERS
_AT_ONCE = 256 * 1024
_EXHAUSTED = "Reading it took more time or memory than a document may take."


async def read_document(
    name: str, pieces: AsyncIterator[bytes], *, patience: timedelta = READ_DEADLINE
) -> Reading:
    """The document as a confined process reads it; raise `Unreadable` when it cannot be."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "recollect.documents.reading.child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Neither keys nor addresses: it needs none.
        env={"LANG": "C.UTF-8"},
        cwd="/",
    )
    try:
        async with asyncio.timeout(patience.total_seconds()):
            _, output = await asyncio.gather(_hand_over(process, name, pieces), _take_back(process))
            code = await process.wait()
    except TimeoutError:
        raise UnreadableDocument(_EXHAUSTED) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code == 0:
        return await asyncio.to_thread(from_written, output)
    if code == REFUSED:
        raise UnreadableDocument(output.decode("utf-8", "replace"))
    if code in {-signal.SIGTERM, -signal.SIGINT}:
        raise asyncio.CancelledError  # the whole house is being stopped, not this document refused
    raise UnreadableDocument(_EXHAUSTED)


async def _hand_over(
    process: asyncio.subprocess.Process, name: str, pieces: AsyncIterator[bytes]
) -> None:
    assert process.stdin
    # A process that has ended early takes no more; its code says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        label = name.replace("\n", " ").encode("utf-8", "replace")
        process.stdin.write(label + b"\n")
        async for piece in pieces:
            process.stdin.write(piece)
            await process.stdin.drain()
    process.stdin.close()


async def _take_back(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout
    output = bytearray()
    while part := await process.stdout.read(_AT_ONCE):
        output += part
        if len(output) > _MOST_OUTPUT:
            raise UnreadableDocument(_EXHAUSTED)
    return bytes(output)
