"""Assets of memories: taken in and given out piece by piece, whole or not at all."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from recollect.domain import Caller, Memory, Right
from recollect.engine import pieces
from recollect.engine.core import Engine
from recollect.engine.pieces import Taken, take_in
from recollect.errors import Invalid, NotFound
from recollect.store import assets
from recollect.store.assets import Asset

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
        taken = await _take_in(engine, caller, asset_id, chunks)
        for each in known:
            if (each.filename, bytes(each.digest)) == (new.filename, taken.digest):
                await _drop(engine, caller, memory, asset_id)
                return each
        async with engine.writing(caller) as db:
            asset = await assets.finish(
                db, caller.workspace_id, asset_id, size=taken.size, digest=taken.digest
            )
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


def give_out(
    engine: Engine, caller: Caller, asset: Asset, first: int, last: int
) -> AsyncIterator[bytes]:
    """The bytes from the first to the last, both included, a piece at a time."""

    async def get(number: int) -> bytes | None:
        async with engine.reading(caller) as db:
            return await assets.piece(db, caller.workspace_id, asset.id, number)

    return pieces.give_out(get, first, last)


async def detach(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    """Delete an asset with its bytes."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        if not await assets.remove(db, caller.workspace_id, memory.id, asset_id):
            raise NotFound("asset")


async def _take_in(
    engine: Engine, caller: Caller, asset_id: UUID, chunks: AsyncIterator[bytes]
) -> Taken:
    async def put(number: int, data: bytes) -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await assets.add_piece(db, caller.workspace_id, asset_id, number, data)

    return await take_in(chunks, put, most_bytes=MOST_BYTES)


async def _drop(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await assets.remove(db, caller.workspace_id, memory.id, asset_id)
