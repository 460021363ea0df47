"""Bytes taken in and given out piece by piece: neither a sender nor a reader holds a connection."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from recollect.errors import TooLarge

PIECE_BYTES = 256 * 1024

# Both are given a piece's number, from 0 on.
Put = Callable[[int, bytes], Awaitable[None]]
Get = Callable[[int], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class Taken:
    """What came in."""

    size: int
    digest: bytes


async def take_in(chunks: AsyncIterator[bytes], put: Put, *, most_bytes: int) -> Taken:
    """Put what the chunks bring in pieces of one size, the last one shorter; count and digest it.

    Raises `TooLarge` as soon as there is more than the most.
    """
    digest, size, number = sha256(), 0, 0
    waiting = bytearray()
    async for chunk in chunks:
        size += len(chunk)
        if size > most_bytes:
            raise TooLarge("file", most=most_bytes, unit="bytes")
        digest.update(chunk)
        waiting += chunk
        while len(waiting) >= PIECE_BYTES:
            await put(number, bytes(waiting[:PIECE_BYTES]))
            del waiting[:PIECE_BYTES]
            number += 1
    if waiting:
        await put(number, bytes(waiting))
    return Taken(size, digest.digest())


async def give_out(get: Get, first: int, last: int) -> AsyncGenerator[bytes]:
    """The bytes from the first to the last, both included, a piece at a time."""
    for number in range(first // PIECE_BYTES, last // PIECE_BYTES + 1):
        piece = await get(number)
        if piece is None:
            return  # it was removed while it was read; the length that was promised shows it
        start = number * PIECE_BYTES
        yield piece[max(first - start, 0) : last - start + 1]
