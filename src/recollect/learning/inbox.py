"""The learning inbox: texts to learn from, queued in the transaction that stores the message."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from recollect.core.domain import Caller, ThreadId
from recollect.core.prompt_fence import strip_fences
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.learning.queries import inbox
from recollect.learning.queries.inbox import Backlog, InboxItem
from recollect.learning.secrets import redact

DISTIL_JOB = NewJob("distil")

# Time to store the result after the model has answered.
_MARGIN = timedelta(minutes=2)

# Learning is behind if a message waits longer than this. If the upstream fails on one message only,
# the rules distil that message earlier.
_BEHIND_AFTER = timedelta(minutes=10)
_RECENT = timedelta(hours=1)

# A longer text is a pasted document, not a statement. Only the beginning is learnt from.
_MAX_CHARACTERS = 20_000
_MAX_SECRET_CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class LearningInput:
    """A text to learn from; `source` names its path: `tool`, `turn`, `auto_deep_think`, ..."""

    text: str
    source: str
    said_at: datetime
    subject: str | None = None
    thread_id: ThreadId | None = None
    # Inputs with the same key make one inbox item, however often they are queued.
    key: str = field(default_factory=lambda: uuid4().hex)


def inbox_item_of(caller: Caller, source: LearningInput) -> InboxItem:
    """Build the inbox item: strip injected memories, and redact secrets before they are stored."""
    # Redact a little beyond the cut, so that a secret that crosses it is recognised.
    text = redact(strip_fences(source.text)[: _MAX_CHARACTERS + _MAX_SECRET_CHARACTERS])[
        :_MAX_CHARACTERS
    ]
    return InboxItem(
        id=uuid4(),
        dedupe_key=source.key,
        source=source.source,
        org_id=caller.org_id,
        user_id=caller.user_id,
        subject=source.subject,
        thread_id=source.thread_id,
        text=text,
        digest=hashlib.sha256(text.encode()).digest(),
        said_at=source.said_at,
    )


def claim_duration(engine: Engine) -> timedelta:
    """How long a claim on an inbox item lasts before another worker may claim it."""
    return engine.learning_deadline + _MARGIN


async def backlog(db: Db, now: datetime) -> Backlog:
    """Count waiting messages in all workspaces, and those the rules distilled in the last hour."""
    return await inbox.read_backlog(db, after=now - _RECENT)


def describe_delay(backlog: Backlog, now: datetime) -> str | None:
    """Say in words how far learning is behind; None if it keeps up."""
    if backlog.since is None or now - backlog.since <= _BEHIND_AFTER:
        return None
    messages = "1 message" if backlog.pending == 1 else f"{backlog.pending:,} messages"
    since = backlog.since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"learning is behind by {messages} since {since}"


async def learn_from(engine: Engine, db: Db, caller: Caller, item: InboxItem) -> None:
    """Queue an item and the job that distils it unless the current claim does so first."""
    await inbox.add(db, caller.workspace_id, item, engine.now())
    job = replace(DISTIL_JOB, run_after=item.held_until)
    await job_queue.enqueue(db, caller.workspace_id, [job], engine.now())
