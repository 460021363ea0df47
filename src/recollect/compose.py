"""Build the parts of a process from its settings: the database, the embedders, the engine."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from recollect.core.domain import SegmentRules
from recollect.core.errors import Unavailable
from recollect.core.settings import Settings
from recollect.db import catalog
from recollect.db.pool import Pool
from recollect.embedded import Attached, CannotStart, attach, default_data_dir
from recollect.engine import Engine
from recollect.learning.third_person import retell
from recollect.models import librarian
from recollect.models.embedder import Purpose
from recollect.models.from_settings import make_chat_models, make_embedders
from recollect.models.lazy_embedder import LazyEmbedder

# The built-in model loads in a second. A slower one continues to load while the server runs.
_WARM_UP_DEADLINE = timedelta(seconds=5)

_WATCH_SECONDS = 1.0
# The pause after a failed start. Each try writes to PostgreSQL's log.
_DOWN_SECONDS = 4.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Database:
    """The address of the database. An embedded one also has programs and a superuser."""

    url: str
    admin_url: str | None = None
    bin_dir: Path | None = None


def data_dir(settings: Settings) -> Path:
    """The directory of the embedded database and the model cache."""
    return settings.data_dir or default_data_dir()


@asynccontextmanager
async def open_database(settings: Settings, *, exclusive: bool = False) -> AsyncGenerator[Database]:
    """The configured PostgreSQL, or the embedded one, which runs until the block ends."""
    if settings.database_url:
        yield Database(settings.database_url)
        return
    attached = await asyncio.to_thread(
        attach, data_dir(settings), binaries=settings.postgres_bin, exclusive=exclusive
    )
    watching = asyncio.create_task(_restart_when_down(attached))
    try:
        yield Database(attached.url, attached.admin_url, attached.bin_dir)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.to_thread(attached.detach)


async def _restart_when_down(attached: Attached) -> None:
    """Restart PostgreSQL when it has ended unexpectedly, as it does on a full disk."""
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        try:
            if await asyncio.to_thread(attached.revive):
                _log.warning("postgres.restarted")
        except CannotStart:
            free = shutil.disk_usage(attached.data_dir).free // 1_000_000
            _log.error("postgres.cannot_start", log=str(attached.log), free_megabytes=free)
            await asyncio.sleep(_DOWN_SECONDS)


@asynccontextmanager
async def open_engine(settings: Settings, database: Database) -> AsyncGenerator[Engine]:
    """An engine on a migrated database."""
    pool = Pool(database.url, size=settings.pool_size, behind_pgbouncer=settings.pgbouncer)
    embedders = make_embedders(
        settings, LazyEmbedder(settings.weights_dir, data_dir(settings) / "models")
    )
    chats = make_chat_models(settings, {librarian.NAME: librarian.Librarian(retell=retell)})
    try:
        await pool.open()
        await _warn_if_unprotected(pool)
        yield Engine(
            pool=pool,
            embedders=embedders,
            chat_models=chats,
            embedding_deadline=settings.embedding_deadline,
            segment_rules=segment_rules(settings),
            summary_model=settings.summary_model,
            injection_deadline=timedelta(milliseconds=settings.inject_deadline_ms),
            injection_floor=settings.inject_floor,
            learning_deadline=timedelta(seconds=settings.learning_seconds),
            summary_deadline=timedelta(seconds=settings.summary_seconds),
            synthesis_deadline=timedelta(seconds=settings.synthesis_seconds),
            turn_deadline=timedelta(seconds=settings.turn_seconds),
            needs_review=settings.review,
            daily_tokens=settings.daily_tokens,
            prices=settings.prices,
        )
    finally:
        await chats.aclose()
        await embedders.aclose()
        await pool.close()


async def _warn_if_unprotected(pool: Pool) -> None:
    """Log a warning if row-level security does not apply. `recollect doctor` says what to do."""
    async with pool.everywhere() as db:
        facts = await catalog.facts(db)
        unprotected = await catalog.unprotected_tables(db)
    if facts.is_superuser or facts.bypasses_row_security:
        _log.warning("database.role_bypasses_row_security", role=facts.role)
    if unprotected:
        _log.warning("database.row_security_is_off", tables=unprotected)


def segment_rules(settings: Settings) -> SegmentRules | None:
    """When a conversation segment ends. None: segments are disabled."""
    if not settings.segment_messages:
        return None
    return SegmentRules(
        max_messages=settings.segment_messages,
        max_pause=timedelta(minutes=settings.segment_minutes),
        min_similarity=settings.segment_tie,
    )


async def warm_up(engine: Engine) -> None:
    """Load the embedder before the first request. If that fails, search by words still works."""
    embedder = engine.embedders.configured(None)
    with contextlib.suppress(Unavailable):
        await embedder.embed(["Good morning."], Purpose.QUERY, deadline=_WARM_UP_DEADLINE)
