"""Queueing what is to be learnt from, in the transaction of what was said."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from recollect.domain import Caller, ThreadId
from recollect.engine.core import Engine
from recollect.engine.fence import unfenced
from recollect.engine.secrets import redacted
from recollect.store import jobs, lessons
from recollect.store.jobs import NewJob
from recollect.store.lessons import Lesson
from recollect.store.pool import Db

DISTIL = NewJob("distil")

# How long somebody may be at a lesson before it is anybody's again: longer than a model thinks.
HELD = timedelta(minutes=3)

# More than this of one message is a document, and documents are not what somebody said.
_LONGEST = 20_000
_LONGEST_SECRET = 5_000


@dataclass(frozen=True, slots=True)
class Said:
    """Words to learn from, and on which path they came: `tool`, `turn`, `auto_deep_think`, ..."""

    text: str
    source: str
    said_at: datetime
    subject: str | None = None
    thread_id: ThreadId | None = None
    # One key, one lesson, however often it is queued.
    key: str = field(default_factory=lambda: uuid4().hex)


def lesson_of(caller: Caller, said: Said) -> Lesson:
    """The lesson to queue: our own fence stripped, secrets blotted out before they are stored."""
    # What is cut off is not looked through; a secret that begins before the cut is seen as one.
    text = redacted(unfenced(said.text)[: _LONGEST + _LONGEST_SECRET])[:_LONGEST]
    return Lesson(
        id=uuid4(),
        dedupe_key=said.key,
        source=said.source,
        org_id=caller.org_id,
        user_id=caller.user_id,
        subject=said.subject,
        thread_id=said.thread_id,
        text=text,
        digest=hashlib.sha256(text.encode()).digest(),
        said_at=said.said_at,
    )


async def learn_from(engine: Engine, db: Db, caller: Caller, lesson: Lesson) -> None:
    """Queue a lesson and the job that will take it, should nobody who holds it do so first."""
    await lessons.add(db, caller.workspace_id, lesson, engine.now())
    job = replace(DISTIL, run_after=lesson.held_until)
    await jobs.enqueue(db, caller.workspace_id, [job], engine.now())
