"""Assets of memories: taken in and given out piece by piece, whole or not at all."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from recollect.domain import Caller, Memory, Right
from recollect.engine.core import Engine
from recollect.errors import Invalid, NotFound, TooLarge
from recollect.store import assets
from recollect.store.assets import PIECE_BYTES, Asset

MOST_BYTES = 20 * 1024 * 1024
MOST_ASSETS = 100


@dataclass(frozen=True, slots=True)
class NewAsset:
    """What is about to be attached."""

    filename: str
    media_type: str


async def attach(
    engine: Engine, caller: Caller, memory: Memory, new: NewAsset, chunks: AsyncIterator[bytes]
) -> Asset:
    """Keep what the chunks bring. Each piece is a transaction: a slow sender holds no connection.

    Sent again, the same bytes of the same name are the asset that is there.
    """
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        known = await assets.of_memory(db, caller.workspace_id, memory.id)
        if len(known) >= MOST_ASSETS:
            raise Invalid(f"A memory holds at most {MOST_ASSETS} assets.")
        asset_id = await assets.begin(
            db,
            caller.workspace_id,
            memory.id,
            filename=new.filename,
            media_type=new.media_type,
            now=engine.now(),
        )
    try:
        size, digest = await _take_in(engine, caller, asset_id, chunks)
        for each in known:
            if (each.filename, bytes(each.digest)) == (new.filename, digest):
                await _drop(engine, caller, memory, asset_id)
                return each
        async with engine.writing(caller) as db:
            asset = await assets.finish(db, caller.workspace_id, asset_id, size=size, digest=digest)
    except BaseException:
        await _drop(engine, caller, memory, asset_id)
        raise
    if asset is None:
        raise NotFound("memory")
    return asset


async def list_assets(engine: Engine, caller: Caller, memory: Memory) -> list[Asset]:
    """What is attached to a memory."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await assets.of_memory(db, caller.workspace_id, memory.id)


async def get_asset(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> Asset:
    """One asset of a memory."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        asset = await assets.find(db, caller.workspace_id, memory.id, asset_id)
    if asset is None:
        raise NotFound("asset")
    return asset


async def give_out(
    engine: Engine, caller: Caller, asset: Asset, first: int, last: int
) -> AsyncIterator[bytes]:
    """The bytes from the first to the last, both included, a piece at a time."""
    for number in range(first // PIECE_BYTES, last // PIECE_BYTES + 1):
        async with engine.reading(caller) as db:
            piece = await assets.piece(db, caller.workspace_id, asset.id, number)
        if piece is None:
            return  # it was removed while it was read; the length that was promised shows it
        start = number * PIECE_BYTES
        yield piece[max(first - start, 0) : last - start + 1]


async def detach(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    """Delete an asset with its bytes."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        if not await assets.remove(db, caller.workspace_id, memory.id, asset_id):
            raise NotFound("asset")


async def _take_in(
    engine: Engine, caller: Caller, asset_id: UUID, chunks: AsyncIterator[bytes]
) -> tuple[int, bytes]:
    digest, size, number = sha256(), 0, 0
    waiting = bytearray()
    async for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            raise TooLarge("file", most=MOST_BYTES, unit="bytes")
        digest.update(chunk)
        waiting += chunk
        while len(waiting) >= PIECE_BYTES:
            await _put(engine, caller, asset_id, number, bytes(waiting[:PIECE_BYTES]))
            del waiting[:PIECE_BYTES]
            number += 1
    if waiting:
        await _put(engine, caller, asset_id, number, bytes(waiting))
    return size, digest.digest()


async def _put(engine: Engine, caller: Caller, asset_id: UUID, number: int, data: bytes) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await assets.add_piece(db, caller.workspace_id, asset_id, number, data)


async def _drop(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await assets.remove(db, caller.workspace_id, memory.id, asset_id)
