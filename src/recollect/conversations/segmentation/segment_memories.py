"""Store a segment as a memory, whether it was cut automatically or made by hand."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from recollect.conversations.queries import segments
from recollect.conversations.queries.messages import LockedThread
from recollect.conversations.queries.segments import Segment
from recollect.conversations.summaries import Summary
from recollect.core.domain import (
    Caller,
    Memory,
    Message,
    Origin,
    Scope,
    SegmentReason,
    new_code,
    new_memory_id,
)
from recollect.db.pool import Db
from recollect.embeddings.generations import EmbeddedText
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.memories.queries import memories
from recollect.memories.save import audit_details, content_digest, indexed_text, store_vector

ACTOR = "segmenter"


async def store_segment(
    engine: Engine,
    db: Db,
    caller: Caller,
    locked: LockedThread,
    messages: Sequence[Message],
    reason: SegmentReason,
    summary: Summary,
    embedded: EmbeddedText | None,
    *,
    is_cut: bool,
) -> Memory:
    """Create the memory of these messages, with its words, its vector and its audit event."""
    now = engine.now()
    # An automatic segment is as old as its last message. One made by hand is created now.
    said_at = min(messages[-1].created_at, now)
    memory = Memory(
        id=new_memory_id(),
        code=new_code(),
        workspace_id=caller.workspace_id,
        org_id=caller.org_id,
        user_id=locked.user_id or caller.user_id,
        content=summary.text,
        created_at=said_at if is_cut else now,
        updated_at=now,
        project_id=locked.project_id,
        agent_id=locked.agent_id,
        thread_id=locked.id,
        thread_code=locked.code,
        subject=locked.subject,
        valid_from=said_at,
        scope=_scope_of(locked) if is_cut else Scope.THREAD,
        origin=Origin.USER if reason is SegmentReason.USER else Origin.AUTO,
        origin_label=None if reason is SegmentReason.USER else ACTOR,
        reason=reason,
    )
    await memories.insert(db, memory, content_digest(memory.content))
    await postings.insert(db, caller.workspace_id, memory.id, terms(indexed_text(memory)))
    memory = await store_vector(engine, db, memory, embedded)
    await segments.link(db, caller.workspace_id, memory.id, [each.id for each in messages])
    await segments.put(
        db,
        caller.workspace_id,
        Segment(memory.id, locked.id, is_cut, summary.by, summary.fallback_reason),
    )
    await record_segment_event(engine, db, caller, "memory.created", memory)
    return memory


def _scope_of(locked: LockedThread) -> Scope:
    """Return the scope: the thread, or for imported history also its user or the workspace."""
    if not locked.is_imported or locked.user_id is None or locked.project_id:
        return Scope.THREAD
    return Scope.WORKSPACE if locked.is_for_all else Scope.GLOBAL


def marks_of(messages: Sequence[Message]) -> list[tuple[UUID, datetime | None]]:
    """Return the ids and edit times of messages, which show whether they have changed."""
    return [(each.id, each.edited_at) for each in messages]


async def record_segment_event(
    engine: Engine, db: Db, caller: Caller, action: str, memory: Memory
) -> None:
    """Record an action on a segment's memory in the audit log."""
    await engine.record_event(
        db,
        caller,
        action,
        audit_details(memory),
        thread_code=memory.thread_code,
        subject=memory.subject,
        is_private=memory.is_restricted,
    )
