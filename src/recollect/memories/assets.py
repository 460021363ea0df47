"""Store, list, read and delete the assets (attached files) of memories.

An asset is stored in pieces. It is visible only once it is complete.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from recollect.core import file_pieces
from recollect.core.domain import Caller, Memory, Right
from recollect.core.errors import Invalid, NotFound
from recollect.core.file_pieces import StoredBytes, store_pieces
from recollect.engine import Engine
from recollect.memories.queries import assets
from recollect.memories.queries.assets import Asset

MAX_BYTES = 20 * 1024 * 1024
MAX_ASSETS = 100


@dataclass(frozen=True, slots=True)
class NewAsset:
    """Name and media type of a file to attach."""

    filename: str
    media_type: str


async def attach(
    engine: Engine, caller: Caller, memory: Memory, new: NewAsset, chunks: AsyncIterator[bytes]
) -> Asset:
    """Store the chunks as an asset of the memory.

    Each piece is its own transaction, so a slow sender does not occupy a connection. If the same
    bytes were already attached under the same filename, return that asset.
    """
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        existing = await assets.of_memory(db, caller.workspace_id, memory.id)
        if len(existing) >= MAX_ASSETS:
            raise Invalid(f"A memory can have at most {MAX_ASSETS} assets.")
        asset_id = await assets.insert_unfinished(
            db,
            caller.workspace_id,
            memory.id,
            filename=new.filename,
            media_type=new.media_type,
            now=engine.now(),
        )
    try:
        stored = await _store_chunks(engine, caller, asset_id, chunks)
        for each in existing:
            if (each.filename, bytes(each.digest)) == (new.filename, stored.digest):
                await _discard(engine, caller, memory, asset_id)
                return each
        async with engine.writing(caller) as db:
            asset = await assets.finish(
                db, caller.workspace_id, asset_id, size=stored.size, digest=stored.digest
            )
    except BaseException:
        await _discard(engine, caller, memory, asset_id)
        raise
    if asset is None:
        raise NotFound("memory")
    return asset


async def list_assets(engine: Engine, caller: Caller, memory: Memory) -> list[Asset]:
    """Return the assets of a memory."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await assets.of_memory(db, caller.workspace_id, memory.id)


async def get_asset(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> Asset:
    """Return one asset of a memory, or raise `NotFound`."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        asset = await assets.find(db, caller.workspace_id, memory.id, asset_id)
    if asset is None:
        raise NotFound("asset")
    return asset


def read_asset(
    engine: Engine, caller: Caller, asset: Asset, first: int, last: int
) -> AsyncIterator[bytes]:
    """Yield the bytes from `first` to `last`, both included, one piece at a time."""

    async def get(number: int) -> bytes | None:
        async with engine.reading(caller) as db:
            return await assets.piece(db, caller.workspace_id, asset.id, number)

    return file_pieces.read_pieces(get, first, last)


async def detach(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    """Delete an asset and its bytes."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        if not await assets.remove(db, caller.workspace_id, memory.id, asset_id):
            raise NotFound("asset")


async def _store_chunks(
    engine: Engine, caller: Caller, asset_id: UUID, chunks: AsyncIterator[bytes]
) -> StoredBytes:
    async def put(number: int, data: bytes) -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await assets.add_piece(db, caller.workspace_id, asset_id, number, data)

    return await store_pieces(chunks, put, max_bytes=MAX_BYTES)


async def _discard(engine: Engine, caller: Caller, memory: Memory, asset_id: UUID) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await assets.remove(db, caller.workspace_id, memory.id, asset_id)
