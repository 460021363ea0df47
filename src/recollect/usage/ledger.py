"""The ledger of model calls: count tokens and cost, and enforce the daily budget.

Background work is stopped before turns are.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import structlog

from recollect.core.domain import WorkspaceId
from recollect.core.errors import Failure, RateLimited, Unavailable
from recollect.core.settings import Price
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.models.chat_errors import SERVICE, Failed, NotUnderstood, Refused, TooSlow
from recollect.models.chat_model import ChatRoute, Completion, ModelRequest, TokenUsage
from recollect.usage import queries

# The share of the daily budget reserved for turns. Background work may not use it.
_TURNS_SHARE = 0.2

# A low estimate for English text, so that token counts are not underestimated.
_CHARACTERS_PER_TOKEN = 3

# Jobs that wait for the same upstream come back within this time of each other.
_MAX_SPREAD = timedelta(seconds=10)

_random = random.SystemRandom()
_log = structlog.get_logger(__name__)


class OverBudget(RateLimited):
    """The workspace has used its token budget for today."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(retry_after)
        self.message = "This workspace has used its token budget for today."


class Postponed(Unavailable):
    """The model cannot be asked now: its upstream is paused, or the budget is used up."""


class Down(Unavailable):
    """The upstream failed repeatedly, so this request is not the cause."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An open entry of the ledger."""

    id: UUID
    workspace_id: WorkspaceId
    model: str


async def open_entry(
    engine: Engine, db: Db, workspace_id: WorkspaceId, *, purpose: str, model: str, reserved: int
) -> LedgerEntry:
    """Record that a model call starts; raise `OverBudget` if the budget does not allow it."""
    now = engine.now()
    if engine.daily_tokens:
        await queries.lock_budget(db, workspace_id)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = await queries.tokens_spent(db, workspace_id, midnight)
        is_background = purpose != "turn"
        allowed = engine.daily_tokens * (1 - _TURNS_SHARE if is_background else 1)
        # The cost of a turn is known only at its end. Background work can estimate its own.
        if spent + (reserved if is_background else 1) > allowed:
            raise OverBudget(midnight + timedelta(days=1) - now)
    entry = LedgerEntry(uuid4(), workspace_id, model)
    await queries.insert_call(
        db, workspace_id, entry.id, purpose=purpose, model=model, reserved=reserved, now=now
    )
    return entry


async def close_entry(
    engine: Engine, db: Db, entry: LedgerEntry, usage: TokenUsage, *, is_done: bool
) -> None:
    """Record the outcome of a call and its cost."""
    await queries.close_call(
        db,
        entry.workspace_id,
        entry.id,
        is_done=is_done,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost_of(engine.prices, entry.model, usage),
        now=engine.now(),
    )


def cost_of(prices: Mapping[str, Price], model: str, usage: TokenUsage) -> float | None:
    """Return the cost of this usage; None if the price table has no entry for the model."""
    matching = [name for name in prices if model.startswith(name)]
    if not matching:
        return None
    price = prices[max(matching, key=len)]
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000


async def ask_in_background(
    engine: Engine,
    workspace_id: WorkspaceId,
    route: ChatRoute,
    question: ModelRequest,
    *,
    purpose: str,
) -> Completion:
    """Ask a model for background work, charge the workspace, and count the outcome.

    Raises `Refused` or `NotUnderstood` if a retry would not help, `TooSlow` after the deadline of
    the question, `Unavailable` if the upstream fails, `Down` if it fails repeatedly, and
    `Postponed` while the upstream is paused or the budget is used up.
    """
    backoff, started_at = engine.chat_models.backoff(route), engine.now()
    if left := backoff.remaining(started_at):
        engine.metrics.count_background_call(purpose, "postponed")
        # Randomised, so that the same workspace is not always first after a pause.
        spread = min(left * 0.2, _MAX_SPREAD) * _random.random()
        raise Postponed(SERVICE, retry_after=left + spread)
    backoff.start(started_at, question.deadline)
    try:
        answer = await _ask_on_account(engine, workspace_id, route, question, purpose=purpose)
    except OverBudget as over:
        # Background work can wait; the queue retries it.
        engine.metrics.count_background_call(purpose, "postponed")
        raise Postponed("token budget", retry_after=over.retry_after) from over
    except (Refused, NotUnderstood) as failure:
        backoff.succeeded()  # the upstream works: it responded
        note_failure(engine, purpose, failure)
        raise
    except Unavailable as failure:
        if failure.service != SERVICE:  # the database is unavailable, not the upstream
            raise Postponed(failure.service, retry_after=failure.retry_after) from failure
        pause = backoff.failed(engine.now(), started_at=started_at, hint=failure.retry_after)
        note_failure(engine, purpose, failure, pause)
        if pause is None or isinstance(failure, TooSlow):
            raise
        down = Down(SERVICE, retry_after=pause)
        down.message = failure.message
        raise down from failure
    finally:
        backoff.finish()
    backoff.succeeded()
    engine.metrics.count_background_call(purpose, "answered")
    return answer


def outcome_of(failure: Failure) -> str:
    """Return the name of a failure in logs and metrics."""
    match failure:
        case Refused():
            return "misconfigured" if failure.is_misconfigured else "refused"
        case NotUnderstood():
            return "unreadable"
        case TooSlow():
            return "slow"
        case _:
            return "unavailable"


def note_failure(
    engine: Engine, purpose: str, failure: Failure, pause: timedelta | None = None
) -> None:
    """Count and log a failed background call."""
    outcome = outcome_of(failure)
    engine.metrics.count_background_call(purpose, outcome)
    _log.warning(
        "background.failed",
        purpose=purpose,
        outcome=outcome,
        status=failure.status if isinstance(failure, (Refused, Failed)) else None,
        why=failure.message,
        pause_seconds=round(pause.total_seconds()) if pause else 0,
    )


async def _ask_on_account(
    engine: Engine,
    workspace_id: WorkspaceId,
    route: ChatRoute,
    question: ModelRequest,
    *,
    purpose: str,
) -> Completion:
    """Ask a model and charge the workspace.

    Raises `OverBudget` if the budget does not allow the call.
    """
    reserved = estimate_tokens(question) + question.max_tokens
    async with engine.pool.writing(workspace_id) as db:
        entry = await open_entry(
            engine, db, workspace_id, purpose=purpose, model=route.model, reserved=reserved
        )
    usage, is_done = TokenUsage(), False
    try:
        answer = await route.ask(question)
        usage, is_done = answer.usage, True
    finally:
        async with engine.pool.writing(workspace_id) as db:
            await close_entry(engine, db, entry, usage, is_done=is_done)
    return answer


def estimate_tokens(question: ModelRequest) -> int:
    """Estimate the number of tokens of a question."""
    characters = sum(len(str(message.get("content") or "")) for message in question.messages)
    return characters // _CHARACTERS_PER_TOKEN + 10 * len(question.messages)
