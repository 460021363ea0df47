"""Counting what models cost, and stopping before it is too much: background work first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.errors import RateLimited, Unavailable
from recollect.models.chat import Completion, Question, Route, Tell, Usage
from recollect.settings import Price
from recollect.store import ledger
from recollect.store.pool import Db

# Of a day's budget, what background work may not touch: people come before housekeeping.
_FOR_PEOPLE = 0.2

# Letters to a token, on the safe side of what tokenisers make of English.
_LETTERS_PER_TOKEN = 3


class OverBudget(RateLimited):
    """The workspace has used up its tokens for today."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(retry_after)
        self.message = "This workspace has used up its tokens for today."


@dataclass(frozen=True, slots=True)
class Entry:
    """An open line of the ledger."""

    id: UUID
    workspace_id: WorkspaceId
    model: str


async def open_entry(
    engine: Engine, db: Db, workspace_id: WorkspaceId, *, purpose: str, model: str, reserved: int
) -> Entry:
    """Write down that a model is about to be asked; raise `OverBudget` when it may not be."""
    now = engine.now()
    if engine.daily_tokens:
        await ledger.hold_budget(db, workspace_id)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = await ledger.spent(db, workspace_id, midnight)
        is_background = purpose != "turn"
        allowed = engine.daily_tokens * (1 - _FOR_PEOPLE if is_background else 1)
        # A turn's cost is known when it is over; background work knows its own before.
        if spent + (reserved if is_background else 1) > allowed:
            raise OverBudget(midnight + timedelta(days=1) - now)
    entry = Entry(uuid4(), workspace_id, model)
    await ledger.begin(
        db, workspace_id, entry.id, purpose=purpose, model=model, reserved=reserved, now=now
    )
    return entry


async def close_entry(engine: Engine, db: Db, entry: Entry, usage: Usage, *, is_done: bool) -> None:
    """Write down what came of it, and what it cost."""
    await ledger.end(
        db,
        entry.workspace_id,
        entry.id,
        is_done=is_done,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost_of(engine.prices, entry.model, usage),
        now=engine.now(),
    )


def cost_of(prices: Mapping[str, Price], model: str, usage: Usage) -> float | None:
    """What this usage of a model costs; None where the table names no price for it."""
    fitting = [name for name in prices if model.startswith(name)]
    if not fitting:
        return None
    price = prices[max(fitting, key=len)]
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000


async def ask_in_background(
    engine: Engine, workspace_id: WorkspaceId, route: Route, question: Question, *, purpose: str
) -> Completion:
    """Ask a model on the workspace's account.

    Raises `Unavailable` when the model does not answer, or when the budget says to wait.
    """
    try:
        return await ask_on_account(engine, workspace_id, route, question, purpose=purpose)
    except OverBudget as over:
        # Work that can wait does: the queue comes back by itself.
        raise Unavailable("token budget", retry_after=over.retry_after) from over


async def ask_on_account(
    engine: Engine,
    workspace_id: WorkspaceId,
    route: Route,
    question: Question,
    *,
    purpose: str,
    tell: Tell | None = None,
) -> Completion:
    """The same for somebody who waits and may be told piece by piece; raise `OverBudget`."""
    reserved = estimate(question) + question.most_tokens
    async with engine.pool.writing(workspace_id) as db:
        entry = await open_entry(
            engine, db, workspace_id, purpose=purpose, model=route.model, reserved=reserved
        )
    usage, is_done = Usage(), False
    try:
        answer = await route.ask(question, tell)
        usage, is_done = answer.usage, True
    finally:
        async with engine.pool.writing(workspace_id) as db:
            await close_entry(engine, db, entry, usage, is_done=is_done)
    return answer


def estimate(question: Question) -> int:
    """About how many tokens a question has."""
    letters = sum(len(str(message.get("content") or "")) for message in question.messages)
    return letters // _LETTERS_PER_TOKEN + 10 * len(question.messages)
