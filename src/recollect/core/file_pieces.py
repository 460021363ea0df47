"""Store and read large files piece by piece, so that no transfer holds a database connection."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from recollect.core.errors import TooLarge

PIECE_BYTES = 256 * 1024

# Both take the number of a piece, counted from 0.
Put = Callable[[int, bytes], Awaitable[None]]
Get = Callable[[int], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The size and digest of a stored file."""

    size: int
    digest: bytes


async def store_pieces(chunks: AsyncIterator[bytes], put: Put, *, max_bytes: int) -> StoredBytes:
    """Store the chunks as pieces of equal size (the last may be shorter); return size and digest.

    Raises `TooLarge` as soon as there are more than `max_bytes`.
    """
    digest, size, number = sha256(), 0, 0
    buffer = bytearray()
    async for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge("file", limit=max_bytes, unit="bytes")
        digest.update(chunk)
        buffer += chunk
        while len(buffer) >= PIECE_BYTES:
            await put(number, bytes(buffer[:PIECE_BYTES]))
            del buffer[:PIECE_BYTES]
            number += 1
    if buffer:
        await put(number, bytes(buffer))
    return StoredBytes(size, digest.digest())


async def read_pieces(get: Get, first: int, last: int) -> AsyncGenerator[bytes]:
    """The bytes from `first` to `last`, both included, piece by piece."""
    for number in range(first // PIECE_BYTES, last // PIECE_BYTES + 1):
        piece = await get(number)
        if piece is None:
            return  # deleted while being read; the client notices by the announced length
        start = number * PIECE_BYTES
        yield piece[max(first - start, 0) : last - start + 1]
