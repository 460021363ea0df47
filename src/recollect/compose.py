"""Builds the parts of a process from its settings: the database, the embedders, the engine."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from recollect.embedded import attach, default_data_dir
from recollect.engine.core import Engine
from recollect.errors import Unavailable
from recollect.models.assemble import assemble, assemble_chats
from recollect.models.embed import Purpose
from recollect.models.lazy import LazyBuiltin
from recollect.settings import Settings
from recollect.store.pool import Pool


@dataclass(frozen=True, slots=True)
class Database:
    """Where the data is. An embedded one also has tools and a superuser."""

    url: str
    admin_url: str | None = None
    bin_dir: Path | None = None


def data_dir(settings: Settings) -> Path:
    """The directory of the embedded database and the model cache."""
    return settings.data_dir or default_data_dir()


@asynccontextmanager
async def open_database(settings: Settings, *, exclusive: bool = False) -> AsyncGenerator[Database]:
    """The configured PostgreSQL, or the embedded one, running for as long as the block lasts."""
    if settings.database_url:
        yield Database(settings.database_url)
        return
    attached = await asyncio.to_thread(
        attach, data_dir(settings), binaries=settings.postgres_bin, exclusive=exclusive
    )
    try:
        yield Database(attached.url, attached.admin_url, attached.bin_dir)
    finally:
        await asyncio.to_thread(attached.detach)


@asynccontextmanager
async def open_engine(settings: Settings, database: Database) -> AsyncGenerator[Engine]:
    """An engine on a migrated database."""
    pool = Pool(database.url, size=settings.pool_size, behind_pgbouncer=settings.pgbouncer)
    embedders = assemble(settings, LazyBuiltin(settings.weights_dir, data_dir(settings) / "models"))
    chats = assemble_chats(settings)
    try:
        await pool.open()
        yield Engine(
            pool=pool,
            embedders=embedders,
            chats=chats,
            embedding_deadline=settings.embedding_deadline,
        )
    finally:
        await chats.aclose()
        await embedders.aclose()
        await pool.close()


async def warm(engine: Engine) -> None:
    """Load the model now and not in somebody's first request; without one, words still work."""
    embedder = engine.embedders.configured(None)
    with contextlib.suppress(Unavailable):
        await embedder.embed(["Good morning."], Purpose.QUERY, deadline=engine.embedding_deadline)
