"""Saving: one memory kept, findable by words at once and by meaning as soon as it has a vector."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from recollect.domain import (
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
from recollect.engine import spaces
from recollect.engine.channels import Channel, enter_channel
from recollect.engine.core import Engine
from recollect.engine.fence import is_blank
from recollect.engine.learning import learn_from
from recollect.engine.link import Link, link_alike, link_new
from recollect.engine.spaces import Embedded
from recollect.engine.twins import TWIN_FLOOR, is_twin, normalised
from recollect.engine.words import terms
from recollect.errors import Invalid, NotFound, TooLarge
from recollect.store import generations, jobs, links, memories, threads, vectors, words
from recollect.store.lessons import Lesson
from recollect.store.pool import Db, together

# No door stores more than this in one memory.
MOST_BYTES = 50_000

# A clock that is fast, or a local time sent as UTC, is no further ahead than this.
MOST_AHEAD = timedelta(days=1)

# The nearest few suffice: what is further away is less alike.
_TWIN_CANDIDATES = 5

KINDS = frozenset(IMPORTANCE_BY_KIND)


@dataclass(frozen=True, slots=True)
class Save:
    """What to remember, and how the door that asks wants it kept."""

    content: str
    thread: Ref | None = None
    # Or a conversation by name, which begins with this if there is none of that name.
    channel: Channel | None = None
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
    # The words it rests on, where somebody else wrote it down.
    quote: str | None = None
    links: Sequence[Link] = ()
    # Hand back the memory that already says it instead of keeping it twice.
    returns_twin: bool = False
    # Link it to the few memories most like it.
    links_alike: bool = False
    # When it was said, for what is brought in from elsewhere; now, if nobody says. What is ahead is
    # taken as now, because recall shows nothing before its time.
    said_at: datetime | None = None
    # Who sees it. A project or an agent is the one that the caller is in.
    scope: Scope = Scope.WORKSPACE
    # Of a project's thread it is the project's: nobody else has heard what was said there.
    stays_in_project: bool = False
    # What is to be learnt from the act that made it: queued in the same transaction.
    lesson: Lesson | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The memory, and whether it was born just now."""

    memory: Memory
    is_new: bool


async def save(engine: Engine, caller: Caller, ask: Save) -> Saved:
    """Keep one memory, or hand back the one that already says it where the door asks for that.

    What was said more than a day ahead is refused: who says so is there to mend it.
    """
    caller.require(Right.WRITE)
    check_content(ask.content)
    if ask.said_at and ask.said_at > engine.now() + MOST_AHEAD:
        raise Invalid(
            "`said_at` is more than a day ahead. Leave it out for what was said just now.",
            field="said_at",
        )
    embedded = None
    if ask.wants_vector:
        # Before the transaction: no connection is held while a model thinks.
        embedded = await spaces.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        return await save_within(engine, db, caller, ask, embedded)


async def save_within(
    engine: Engine, db: Db, caller: Caller, ask: Save, embedded: Embedded | None
) -> Saved:
    """As `save`, in a transaction that is under way, with what was embedded before it began."""
    _check_scope(caller, ask)
    thread = await _thread(engine, db, caller, ask)
    if ask.stays_in_project and thread and thread.project_id:
        caller = replace(caller, project_id=thread.project_id)
        ask = replace(ask, scope=Scope.PROJECT)
    if ask.lesson:
        await learn_from(engine, db, caller, ask.lesson)
    if ask.returns_twin:
        subject = ask.subject or (thread.subject if thread else None)
        twin = await _find_twin(engine, db, caller, ask, subject, embedded)
        if twin:
            return Saved(twin, is_new=False)
    if any(link.relation is Relation.UPDATES for link in ask.links):
        await links.take_turn(db, caller.workspace_id)
    now = said_at = engine.now()
    if ask.said_at and ask.said_at <= now:
        said_at = await memories.moment_after(db, caller, ask.said_at)
    memory = _newborn(caller, ask, thread, said_at, now)
    async with together(db):
        await memories.insert(db, memory, content_digest(memory.content))
        await words.insert(db, caller.workspace_id, memory.id, terms(indexed_text(memory)))
        memory = await attach_vector(engine, db, memory, embedded)
    if ask.links_alike:
        await link_alike(engine, db, caller, memory, embedded)
    await link_new(engine, db, caller, memory, ask.links)
    await engine.note(
        db,
        caller,
        "memory.created",
        audited(memory),
        thread_code=memory.thread_code,
        subject=memory.subject,
        is_private=memory.is_restricted,
    )
    return Saved(memory, is_new=True)


def check_content(content: str) -> None:
    """Raise `Invalid` or `TooLarge` for a text that no memory can hold."""
    if is_blank(content):
        raise Invalid("`content` must not be empty.", field="content")
    size = len(content.encode())
    if size > MOST_BYTES:
        raise TooLarge("content", most=MOST_BYTES, size=size, unit="bytes")


def _check_scope(caller: Caller, ask: Save) -> None:
    if ask.scope is Scope.PROJECT and caller.project_id is None:
        raise Invalid("A memory of scope `project` needs its project.", field="scope")
    if ask.scope is Scope.AGENT and caller.agent_id is None:
        raise Invalid("A memory of scope `agent` needs its agent.", field="scope")
    if ask.scope is Scope.THREAD and ask.thread is None and ask.channel is None:
        raise Invalid("A memory of scope `thread` needs its thread.", field="scope")


async def attach_vector(
    engine: Engine, db: Db, memory: Memory, embedded: Embedded | None
) -> Memory:
    """Store the memory's vector, or queue the job that will; the answer says which it was."""
    if not memory.wants_vector:
        return memory
    has_vector = await spaces.attach(engine, db, memory.workspace_id, memory.id, embedded)
    if not has_vector:
        await jobs.enqueue(db, memory.workspace_id, [spaces.TEND], engine.now())
    return replace(memory, has_vector=has_vector)


def indexed_text(memory: Memory) -> str:
    """Everything a memory can be found by in words."""
    return text_to_index(memory.content, memory.summary, memory.key, memory.category, memory.tags)


def text_to_index(
    content: str,
    summary: str | None,
    key: str | None,
    category: str | None,
    tags: Sequence[str],
) -> str:
    """The same of a memory that is only about to be one."""
    return "\n".join(part for part in [content, summary, key, category, *tags] if part)


def content_digest(content: str) -> bytes:
    """What two texts share that differ in nothing but form."""
    return sha256(normalised(content).encode()).digest()


def kind_of(category: str | None) -> str | None:
    """The kind that drives behaviour, where a free-form category names one."""
    name = (category or "").strip().lower()
    return name if name in KINDS else None


def audited(memory: Memory) -> dict[str, Any]:
    """What the audit keeps of a memory: its address and a hash, never its text."""
    return {
        "memory": memory.code,
        "version": memory.version,
        "hash": sha256(memory.content.encode()).hexdigest(),
    }


async def _thread(engine: Engine, db: Db, caller: Caller, ask: Save) -> Thread | None:
    if ask.thread is None and ask.channel is None:
        return None
    if ask.channel:
        thread = await enter_channel(engine, db, caller, ask.channel)
    else:
        thread = await threads.find(db, caller, ask.thread or Ref(), engine.now())
    # Held, because whoever deletes the thread deletes its memories, this one included.
    if thread is None or not await threads.hold(db, caller.workspace_id, thread.id):
        raise NotFound("session")
    return thread


async def _find_twin(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Save,
    subject: str | None,
    embedded: Embedded | None,
) -> Memory | None:
    """The live memory of the same scope and person that already says it."""
    await generations.hold_for_twins(db, caller.workspace_id)
    same = await memories.find_same_text(
        db, caller, content_digest(ask.content), ask.scope, subject=subject, now=engine.now()
    )
    serving = await generations.hold_serving(db, caller.workspace_id)
    if same or serving is None or embedded is None or not embedded.belongs_to(serving):
        return same
    embedder = engine.embedders.of(embedded.identity)
    near = await vectors.nearest(
        db,
        caller,
        embedded.point(serving),
        Filter(subject=subject),
        limit=_TWIN_CANDIDATES,
        now=engine.now(),
    )
    for each in near:
        memory, likeness = each.memory, embedder.likeness(each.cosine)
        is_of_same = memory.scope is ask.scope and memory.subject == subject
        if likeness >= TWIN_FLOOR and is_of_same and is_twin(memory.content, ask.content, likeness):
            return memory
    return None


def _newborn(
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
