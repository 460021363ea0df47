"""Server-sent events as models stream them: cut out of bytes, not interpreted. Pure."""

from collections.abc import AsyncIterator, Iterator

from recollect.models.faults import NotUnderstood

# No event of any model is longer; what is, is no event.
_LONGEST_EVENT = 8 * 1024 * 1024
DONE = b"[DONE]"


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The events that arrived together, each with the blank line that ends it, exactly as it came.

    A rest without end comes last.
    """
    buffer = bytearray()
    blanks = (b"\n\n",)
    async for chunk in chunks:
        buffer += chunk
        if b"\r" in chunk:
            blanks = (b"\n\n", b"\r\n\r\n", b"\r\r")
        if found := list(_cut(buffer, blanks)):
            yield found
        if len(buffer) > _LONGEST_EVENT:
            raise NotUnderstood
    if buffer.strip():
        yield [bytes(buffer)]


def data(event: bytes) -> bytes | None:
    """The data of an event; None when it has none, as a comment has not."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2 and b"\r" not in event:
        return event[6:-2]
    lines = [line for line in event.splitlines() if line.startswith(b"data:")]
    if not lines:
        return None
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def _cut(buffer: bytearray, blanks: tuple[bytes, ...]) -> Iterator[bytes]:
    """Every whole event in the buffer, which then holds what is left of it."""
    begin = 0
    while end := _end(buffer, begin, blanks):
        yield bytes(buffer[begin:end])
        begin = end
    del buffer[:begin]


def _end(buffer: bytearray, begin: int, blanks: tuple[bytes, ...]) -> int:
    """Where the first event ends, behind its blank line; 0 when it does not yet."""
    ends = [at + len(blank) for blank in blanks if (at := buffer.find(blank, begin)) >= 0]
    return min(ends, default=0)
