"""The engine: everything that an operation needs, passed explicitly."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from recollect.core.domain import NO_WORKSPACE, Caller, Json, SegmentRules, utc_now
from recollect.core.errors import Conflict, Invalid
from recollect.core.generation_cache import GenerationCache
from recollect.core.metrics import Metrics
from recollect.core.settings import Price
from recollect.core.vector_cache import VectorCache
from recollect.db import audit_events, idempotency
from recollect.db.pool import Db, Pool
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder_registry import Embedders

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Engine:
    """A database, embedders, chat models and a clock."""

    pool: Pool
    embedders: Embedders
    chat_models: ChatModels = field(default_factory=ChatModels)
    now: Clock = utc_now
    # How long a save waits for its vector before it is stored without one.
    embedding_deadline: timedelta = timedelta(seconds=1)
    # How long a turn waits for its memories before it continues without them.
    injection_deadline: timedelta = timedelta(seconds=1)
    # The minimum relevance of memories that are added to a prompt automatically.
    injection_floor: float = 0.7
    # How long background work waits for a model, by what it asks for.
    learning_deadline: timedelta = timedelta(seconds=60)
    summary_deadline: timedelta = timedelta(seconds=30)
    synthesis_deadline: timedelta = timedelta(seconds=30)
    # The longest a turn may take.
    turn_deadline: timedelta = timedelta(minutes=10)
    # Whether learnt memories wait for a person to accept them.
    needs_review: bool = False
    # The `Distiller` to use. None: choose one by the configured models.
    distiller: object | None = None
    # Tokens that a workspace may use per day. 0: no limit.
    daily_tokens: int = 0
    # Prices of models, by the start of their names.
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    # When a conversation segment ends. None: conversations are not segmented.
    segment_rules: SegmentRules | None = SegmentRules()
    # The model that writes summaries. `local`: none.
    summary_model: str | None = None
    metrics: Metrics = field(default_factory=Metrics)
    generation_cache: GenerationCache = field(default_factory=GenerationCache)
    vector_cache: VectorCache = field(default_factory=VectorCache)

    def reading(self, caller: Caller) -> AbstractAsyncContextManager[Db]:
        """A read-only transaction in the caller's workspace."""
        return self.pool.reading(caller.workspace_id)

    def searching(
        self, caller: Caller, *, is_filtered: bool = False
    ) -> AbstractAsyncContextManager[Db]:
        """Like `reading`. Unfiltered searches all have the same plan, which is reused."""
        return self.pool.reading(caller.workspace_id, keeps_plans=not is_filtered)

    @asynccontextmanager
    async def writing(self, caller: Caller) -> AsyncGenerator[Db]:
        """A read-write transaction in the caller's workspace.

        A request with an idempotency key is marked as done in the same transaction, so it is never
        carried out twice, even if its response is lost. If the request was so slow that a repeat
        took over its claim, it is rolled back.
        """
        if caller.workspace_id == NO_WORKSPACE:
            raise Invalid("No workspace is active. Name one, or use a workspace's key.")
        async with self.pool.writing_as(caller.workspace_id, caller.user_id) as db:
            yield db
            if caller.repeat_key and not await idempotency.mark_done(
                db, caller.workspace_id, caller.repeat_key
            ):
                raise Conflict("A repeat of this request has replaced it.", is_temporary=True)

    async def record_event(
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
        """Record an audit event for the caller in this transaction."""
        return await audit_events.insert_event(
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
