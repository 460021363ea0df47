"""The engine itself: what every verb needs, handed on explicitly."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from recollect.domain import NOWHERE, Caller, Json, utc_now
from recollect.engine.heard import Heard
from recollect.engine.segmentation import Rules
from recollect.engine.space_cache import SpaceCache
from recollect.errors import Conflict, Invalid
from recollect.models.chats import Chats
from recollect.models.registry import Embedders
from recollect.settings import Price
from recollect.store import events, idempotency
from recollect.store.pool import Db, Pool

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Engine:
    """A database, embedders, chat models and a clock."""

    pool: Pool
    embedders: Embedders
    chats: Chats = field(default_factory=Chats)
    now: Clock = utc_now
    # How long a save waits for a vector before it goes on without one.
    embedding_deadline: timedelta = timedelta(seconds=1)
    # How long a turn waits for its memories before it goes on without them.
    injection_deadline: timedelta = timedelta(seconds=1)
    # What is less relevant than this is not told to a model unasked.
    injection_floor: float = 0.7
    # The longest a turn may take.
    turn_deadline: timedelta = timedelta(minutes=10)
    # Whether what is learnt waits for a person to accept it.
    is_reviewed: bool = False
    # Who distils lessons, a `Distiller`; None: whoever the configured models make it.
    distiller: object | None = None
    # Tokens a workspace may use a day; 0: no limit.
    daily_tokens: int = 0
    # What models cost, by the beginning of their names.
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    # When a stretch of conversation ends; None leaves conversations whole.
    segment_rules: Rules | None = Rules()
    # Which model writes summaries; `local` for none.
    summary_model: str | None = None
    spaces: SpaceCache = field(default_factory=SpaceCache)
    heard: Heard = field(default_factory=Heard)

    def reading(self, caller: Caller) -> AbstractAsyncContextManager[Db]:
        """A transaction in which the caller's workspace can be read."""
        return self.pool.reading(caller.workspace_id)

    def searching(
        self, caller: Caller, *, is_filtered: bool = False
    ) -> AbstractAsyncContextManager[Db]:
        """As `reading`; unfiltered, every search has the same plan and is not planned anew."""
        return self.pool.reading(caller.workspace_id, keeps_plans=not is_filtered)

    @asynccontextmanager
    async def writing(self, caller: Caller) -> AsyncGenerator[Db]:
        """A transaction in which the caller's workspace can be changed.

        A request that came with an idempotency key is marked as carried out in the same
        transaction: whatever happens to its answer, it is never carried out twice. One so slow that
        a repeat was let in instead is undone.
        """
        if caller.workspace_id == NOWHERE:
            raise Invalid("No workspace is active. Name one, or use a key of one.")
        async with self.pool.writing_as(caller.workspace_id, caller.user_id) as db:
            yield db
            if caller.once and not await idempotency.mark_done(
                db, caller.workspace_id, caller.once
            ):
                raise Conflict("A repeat of this request has taken its place.", is_passing=True)

    async def note(
        self,
        db: Db,
        caller: Caller,
        action: str,
        details: Json,
        *,
        thread_code: str | None = None,
        subject: str | None = None,
        reason: str | None = None,
        is_private: bool = False,
    ) -> UUID:
        """Write down in the audit what the caller does in this transaction."""
        return await events.record(
            db,
            caller.workspace_id,
            action,
            actor=caller.label,
            user_id=caller.user_id,
            details=details,
            at=self.now(),
            thread_code=thread_code,
            subject=subject,
            reason=reason,
            is_private=is_private,
        )
