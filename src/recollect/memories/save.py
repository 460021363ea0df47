"""Save a memory. It is searchable by words at once, and by meaning once it has a vector."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from recollect.conversations.queries import threads
from recollect.core.domain import (
    DEFAULT_IMPORTANCE,
    IMPORTANCE_BY_KIND,
    Caller,
    Filter,
    Json,
    Lifecycle,
    Memory,
    Origin,
    Ref,
    Relation,
    Right,
    Scope,
    Thread,
    new_code,
    new_memory_id,
)
from recollect.core.errors import Invalid, NotFound, TooLarge
from recollect.core.prompt_fence import is_blank
from recollect.db import job_queue
from recollect.db.pool import Db, pipeline
from recollect.embeddings import generations as embedding
from recollect.embeddings.generations import EmbeddedText
from recollect.embeddings.queries import generations, vectors
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.memories.dedupe.same_statement import DUPLICATE_FLOOR, is_same_statement, normalised
from recollect.memories.links import Link, link_new, link_similar
from recollect.memories.queries import memories, supersession
from recollect.tenancy.thread_lookup import ThreadName, find_or_create_thread

# The limit for one memory, whichever interface saves it.
MAX_BYTES = 50_000

# Tolerates a fast clock, or a local time sent as UTC.
_MAX_AHEAD = timedelta(days=1)

# A few nearest candidates suffice: the others are less similar.
_DUPLICATE_CANDIDATES = 5

KINDS = frozenset(IMPORTANCE_BY_KIND)


@dataclass(frozen=True, slots=True)
class Save:
    """The memory to save, and how the calling interface wants it saved."""

    content: str
    thread: Ref | None = None
    # Alternative to `thread`: a thread by name, created if there is none.
    thread_name: ThreadName | None = None
    subject: str | None = None
    summary: str | None = None
    key: str | None = None
    category: str | None = None
    tags: Sequence[str] = ()
    metadata: Json = field(default_factory=dict[str, Any])
    importance: float | None = None
    pinned: bool = False
    expires_at: datetime | None = None
    wants_vector: bool = True
    origin: Origin = Origin.USER
    origin_label: str | None = None
    lifecycle: Lifecycle = Lifecycle.PERMANENT
    source_note: str | None = None
    # The source text that supports the content, if the content is not the author's own wording.
    quote: str | None = None
    links: Sequence[Link] = ()
    # Return an existing memory with the same statement instead of saving a duplicate.
    returns_duplicate: bool = False
    # Link it to the most similar memories.
    links_similar: bool = False
    # When it was said, for imported data; None means now. A time in the future is replaced by now,
    # because recall shows nothing before its time.
    said_at: datetime | None = None
    # Who can see it. For `project` and `agent`: the caller's project or agent.
    scope: Scope = Scope.WORKSPACE
    # If the thread belongs to a project, save with scope `project`: only its members can read the
    # thread.
    stays_in_project: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """The memory, and whether this call created it."""

    memory: Memory
    is_new: bool


async def save(engine: Engine, caller: Caller, ask: Save) -> Saved:
    """Save one memory, or return the existing duplicate if the request asks for that.

    `said_at` more than one day in the future is rejected.
    """
    caller.require(Right.WRITE)
    check_content(ask.content)
    if ask.said_at and ask.said_at > engine.now() + _MAX_AHEAD:
        raise Invalid(
            "`said_at` is more than one day in the future. Omit it to use the current time.",
            field="said_at",
        )
    embedded = None
    if ask.wants_vector:
        # Embed before the transaction, so that no connection is held during the model call.
        embedded = await embedding.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        return await save_within(engine, db, caller, ask, embedded)


async def save_within(
    engine: Engine, db: Db, caller: Caller, ask: Save, embedded: EmbeddedText | None
) -> Saved:
    """Like `save`, inside an open transaction, with the text embedded before it began."""
    _check_scope(caller, ask)
    thread = await _find_thread(engine, db, caller, ask)
    if ask.stays_in_project and thread and thread.project_id:
        caller = replace(caller, project_id=thread.project_id)
        ask = replace(ask, scope=Scope.PROJECT)
    if ask.returns_duplicate:
        subject = ask.subject or (thread.subject if thread else None)
        duplicate = await _find_duplicate(engine, db, caller, ask, subject, embedded)
        if duplicate:
            return Saved(duplicate, is_new=False)
    if any(link.relation is Relation.UPDATES for link in ask.links):
        await supersession.lock_supersession(db, caller.workspace_id)
    now = said_at = engine.now()
    if ask.said_at and ask.said_at <= now:
        said_at = await memories.first_free_moment(db, caller, ask.said_at)
    memory = _new_memory(caller, ask, thread, said_at, now)
    async with pipeline(db):
        await memories.insert(db, memory, content_digest(memory.content))
        await postings.insert(db, caller.workspace_id, memory.id, terms(indexed_text(memory)))
        memory = await store_vector(engine, db, memory, embedded)
    if ask.links_similar:
        await link_similar(engine, db, caller, memory, embedded)
    await link_new(engine, db, caller, memory, ask.links)
    await engine.record_event(
        db,
        caller,
        "memory.created",
        audit_details(memory),
        thread_code=memory.thread_code,
        subject=memory.subject,
        is_private=memory.is_restricted,
    )
    return Saved(memory, is_new=True)


def check_content(content: str) -> None:
    """Raise `Invalid` or `TooLarge` for a text that cannot be a memory's content."""
    if is_blank(content):
        raise Invalid("`content` must not be empty.", field="content")
    size = len(content.encode())
    if size > MAX_BYTES:
        raise TooLarge("content", limit=MAX_BYTES, size=size, unit="bytes")


def _check_scope(caller: Caller, ask: Save) -> None:
    if ask.scope is Scope.PROJECT and caller.project_id is None:
        raise Invalid("A memory with scope `project` needs a project.", field="scope")
    if ask.scope is Scope.AGENT and caller.agent_id is None:
        raise Invalid("A memory with scope `agent` needs an agent.", field="scope")
    if ask.scope is Scope.THREAD and ask.thread is None and ask.thread_name is None:
        raise Invalid("A memory with scope `thread` needs a thread.", field="scope")


async def store_vector(
    engine: Engine, db: Db, memory: Memory, embedded: EmbeddedText | None
) -> Memory:
    """Store the memory's vector, or queue the job that will. `has_vector` says which happened."""
    if not memory.wants_vector:
        return memory
    has_vector = await embedding.store_vector(engine, db, memory.workspace_id, memory.id, embedded)
    if not has_vector:
        await job_queue.enqueue(db, memory.workspace_id, [embedding.EMBED_JOB], engine.now())
    return replace(memory, has_vector=has_vector)


def indexed_text(memory: Memory) -> str:
    """Return all the text by which keyword search finds a memory."""
    return index_text_of(memory.content, memory.summary, memory.key, memory.category, memory.tags)


def index_text_of(
    content: str,
    summary: str | None,
    key: str | None,
    category: str | None,
    tags: Sequence[str],
) -> str:
    """Like `indexed_text`, for a memory that does not exist yet."""
    return "\n".join(part for part in [content, summary, key, category, *tags] if part)


def content_digest(content: str) -> bytes:
    """Return a hash that is equal for texts that differ only in form, such as case."""
    return sha256(normalised(content).encode()).digest()


def kind_of(category: str | None) -> str | None:
    """Return the kind (which drives behaviour) that a free-form category names, if any."""
    name = (category or "").strip().lower()
    return name if name in KINDS else None


def audit_details(memory: Memory) -> dict[str, Any]:
    """Return what the audit log records of a memory: its code and a hash, never its text."""
    return {
        "memory": memory.code,
        "version": memory.version,
        "hash": sha256(memory.content.encode()).hexdigest(),
    }


async def _find_thread(engine: Engine, db: Db, caller: Caller, ask: Save) -> Thread | None:
    if ask.thread is None and ask.thread_name is None:
        return None
    if ask.thread_name:
        thread = await find_or_create_thread(engine, db, caller, ask.thread_name)
    else:
        thread = await threads.find(db, caller, ask.thread or Ref(), engine.now())
    # Locked, because deleting the thread also deletes its memories, including this one.
    if thread is None or not await threads.share_lock(db, caller.workspace_id, thread.id):
        raise NotFound("session")
    return thread


async def _find_duplicate(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Save,
    subject: str | None,
    embedded: EmbeddedText | None,
) -> Memory | None:
    """Return the live memory with the same scope and person that makes the same statement."""
    await generations.lock_for_duplicates(db, caller.workspace_id)
    same = await memories.find_same_text(
        db, caller, content_digest(ask.content), ask.scope, subject=subject, now=engine.now()
    )
    serving = await generations.lock_serving(db, caller.workspace_id)
    if same or serving is None or embedded is None or not embedded.belongs_to(serving):
        return same
    embedder = engine.embedders.of(embedded.identity)
    near = await vectors.nearest(
        db,
        caller,
        embedded.point(serving),
        Filter(subject=subject),
        limit=_DUPLICATE_CANDIDATES,
        now=engine.now(),
    )
    for each in near:
        memory, similarity = each.memory, embedder.likeness(each.cosine)
        has_same_owner = memory.scope is ask.scope and memory.subject == subject
        if (
            similarity >= DUPLICATE_FLOOR
            and has_same_owner
            and is_same_statement(memory.content, ask.content, similarity)
        ):
            return memory
    return None


def _new_memory(
    caller: Caller, ask: Save, thread: Thread | None, said_at: datetime, now: datetime
) -> Memory:
    kind = kind_of(ask.category)
    importance = ask.importance
    if importance is None:
        importance = IMPORTANCE_BY_KIND.get(kind or "", DEFAULT_IMPORTANCE)
    return Memory(
        id=new_memory_id(),
        code=new_code(),
        workspace_id=caller.workspace_id,
        org_id=caller.org_id,
        user_id=caller.user_id,
        project_id=caller.project_id,
        agent_id=caller.agent_id,
        thread_id=thread.id if thread else None,
        thread_code=thread.code if thread else None,
        thread_label=thread.label if thread else None,
        subject=ask.subject or (thread.subject if thread else None),
        content=ask.content,
        summary=ask.summary,
        key=ask.key,
        category=ask.category,
        kind=kind,
        tags=tuple(ask.tags),
        metadata=ask.metadata,
        importance=importance,
        importance_base=importance,
        pinned=ask.pinned,
        expires_at=ask.expires_at,
        valid_from=said_at,
        lifecycle=ask.lifecycle,
        scope=ask.scope,
        origin=ask.origin,
        origin_label=ask.origin_label,
        source_note=ask.source_note,
        quote=ask.quote,
        wants_vector=ask.wants_vector,
        created_at=said_at,
        updated_at=now,
    )
