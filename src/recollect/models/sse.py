"""Split a byte stream into server-sent events without changing them. Pure."""

from collections.abc import AsyncIterator, Iterator

from recollect.models.chat_errors import NotUnderstood

# No real event of any model is longer.
_MAX_EVENT_BYTES = 8 * 1024 * 1024
DONE = b"[DONE]"


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield the events that arrived together, unchanged, each with the blank line that ends it.

    An unfinished event at the end of the stream comes last.
    """
    buffer = bytearray()
    blanks = (b"\n\n",)
    async for chunk in chunks:
        buffer += chunk
        if b"\r" in chunk:
            blanks = (b"\n\n", b"\r\n\r\n", b"\r\r")
        if found := list(_split_events(buffer, blanks)):
            yield found
        if len(buffer) > _MAX_EVENT_BYTES:
            raise NotUnderstood
    if buffer.strip():
        yield [bytes(buffer)]


def data(event: bytes) -> bytes | None:
    """Return the data of an event; None if it has none, such as a comment."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2 and b"\r" not in event:
        return event[6:-2]
    lines = [line for line in event.splitlines() if line.startswith(b"data:")]
    if not lines:
        return None
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def _split_events(buffer: bytearray, blanks: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield every complete event and remove it from the buffer."""
    begin = 0
    while end := _event_end(buffer, begin, blanks):
        yield bytes(buffer[begin:end])
        begin = end
    del buffer[:begin]


def _event_end(buffer: bytearray, begin: int, blanks: tuple[bytes, ...]) -> int:
    """Return where the event at `begin` ends, after its blank line; 0 if it is incomplete."""
    ends = [at + len(blank) for blank in blanks if (at := buffer.find(blank, begin)) >= 0]
    return min(ends, default=0)
