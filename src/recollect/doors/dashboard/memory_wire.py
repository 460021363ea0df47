"""Memories in this door's JSON: in lists, on the timeline, and all there is to know of one."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from recollect.domain import Memory, MemoryId
from recollect.doors.dashboard.wire import (
    Page,
    PageParameters,
    Word,
    chat_id,
    memory_id,
    message_id,
    workspace_id,
)
from recollect.doors.values import Body, iso
from recollect.engine.search import Finding
from recollect.engine.shelf import Detail, Facet, source_type


class MemoryParameters(PageParameters):
    """Which memories to list; with `q`, by how well they fit it."""

    q: Word | None = None
    category: Word | None = None
    source_type: Word | None = None
    tag: Word | None = None
    chat: Word | None = None


class NewChatMemory(Body):
    """`POST /chat/api/{chatId}/memory`: a message, a text, or both."""

    messageId: str | None = None
    content: str | None = None
    category: str | None = None
    synthesize: bool = False


class NewMemory(Body):
    """`POST /chat/api/workspaces/{workspaceId}/memories`."""

    content: str
    category: str | None = None


class MemoryChange(Body):
    """`PATCH` of a memory: nothing but its content."""

    content: str


class Pin(Body):
    """`POST .../memories/{memoryId}/pin`."""

    pinned: bool


class ChatMemoryObject(BaseModel):
    """A memory as its chat lists it."""

    id: str
    content: str
    summary: str | None
    category: str | None
    source_type: str
    created_at: str
    updated_at: str


class MemoryObject(ChatMemoryObject):
    """A memory."""

    source_chat_id: str | None
    source_message_id: str | None
    workspace_id: str
    pinned: bool
    tags: list[str]
    importance: float
    # Only where something was asked for: how well it fits, and its place in each list.
    score: float | None = None
    why: dict[str, Any] | None = None


class LearntObject(MemoryObject):
    """A memory, when it was learnt, and from when to when it held."""

    learned_at: str
    valid_from: str | None
    valid_until: str | None


class Timeline(Page[LearntObject]):
    """What was held true at a time, and when the first of all was learnt."""

    first_at: str | None


class ChatMemories(BaseModel):
    """`GET /chat/api/{chatId}/memories`."""

    memories: list[ChatMemoryObject]


class Count(BaseModel):
    """How many there are."""

    count: int


class FacetObject(BaseModel):
    """A word memories can be told apart by."""

    name: str
    count: int


class ChatFacet(BaseModel):
    """A chat, and how many memories came from it."""

    id: str
    title: str | None
    count: int


class Facets(BaseModel):
    """By what the memories can be told apart, commonest first."""

    categories: list[FacetObject]
    source_types: list[FacetObject]
    tags: list[FacetObject]
    chats: list[ChatFacet]


class LinkObject(BaseModel):
    """A link to another memory; `out` reads from this one to that one."""

    relation: str
    direction: Literal["out", "in"]
    weight: float
    memory: MemoryObject


class DeedObject(BaseModel):
    """Something that was done to a memory."""

    at: str
    event: str
    actor: str
    version: int | None
    # What it said from then on, where that is known.
    content: str | None


class SourceMessage(BaseModel):
    """A message that a memory was made of."""

    id: str
    chat_id: str
    role: str
    content: str


class MemoryDetail(MemoryObject):
    """All there is to know of one memory."""

    quote: str | None
    reason: str | None
    source_note: str | None
    valid_from: str | None
    valid_until: str | None
    superseded_by: str | None
    replaces: list[MemoryObject]
    replaced_by: list[MemoryObject]
    links: list[LinkObject]
    history: list[DeedObject]
    messages: list[SourceMessage]


def from_chat_memory(memory: Memory) -> ChatMemoryObject:
    """A memory as its chat lists it."""
    return ChatMemoryObject(
        id=memory_id(memory),
        content=memory.content,
        summary=memory.summary,
        category=memory.category,
        source_type=source_type(memory),
        created_at=iso(memory.created_at),
        updated_at=iso(memory.updated_at),
    )


def from_memory(
    memory: Memory, sources: Mapping[MemoryId, str], finding: Finding | None = None
) -> MemoryObject:
    """A memory, the message it came from, and why it was found."""
    message = sources.get(memory.id)
    return MemoryObject(
        **from_chat_memory(memory).model_dump(),
        source_chat_id=chat_id(memory.thread_code) if memory.thread_code else None,
        source_message_id=message_id(message) if message else None,
        workspace_id=workspace_id(memory.workspace_id),
        pinned=memory.pinned,
        tags=list(memory.tags),
        importance=round(memory.importance, 4),
        score=round(finding.score, 6) if finding else None,
        why=_why(finding) if finding else None,
    )


def from_learnt(shown: MemoryObject, memory: Memory) -> LearntObject:
    """A memory on the timeline."""
    return LearntObject(
        **shown.model_dump(),
        learned_at=iso(memory.created_at),
        valid_from=iso(memory.valid_from) if memory.valid_from else None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
    )


def _why(finding: Finding) -> dict[str, Any]:
    return {
        str(each.source): {"rank": each.rank, "score": round(each.score, 6)}
        for each in finding.places
    }


def from_facets(found: Sequence[Facet]) -> Facets:
    """By what the memories can be told apart."""

    def words(kind: str) -> list[FacetObject]:
        return [
            FacetObject(name=each.name, count=each.count) for each in found if each.kind == kind
        ]

    return Facets(
        categories=words("category"),
        source_types=words("source_type"),
        tags=words("tag"),
        chats=[
            ChatFacet(id=chat_id(each.name), title=each.title, count=each.count)
            for each in found
            if each.kind == "chat"
        ],
    )


def from_detail(detail: Detail) -> MemoryDetail:
    """All there is to know of one memory."""
    memory = detail.memory
    sources = {memory.id: detail.messages[0].code} if detail.messages else {}
    return MemoryDetail(
        **from_memory(memory, sources).model_dump(),
        quote=memory.quote,
        reason=memory.reason,
        source_note=memory.source_note,
        valid_from=iso(memory.valid_from) if memory.valid_from else None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
        superseded_by=memory_id(detail.replaced_by[0]) if detail.replaced_by else None,
        replaces=[from_memory(each, {}) for each in detail.replaces],
        replaced_by=[from_memory(each, {}) for each in detail.replaced_by],
        links=[
            LinkObject(
                relation=each.association.relation,
                direction="out" if each.is_outward else "in",
                weight=each.association.weight,
                memory=from_memory(each.other, {}),
            )
            for each in detail.ties
        ],
        history=[
            DeedObject(
                at=iso(each.deed.at),
                event=each.deed.action,
                actor=each.deed.actor,
                version=each.deed.version,
                content=each.content,
            )
            for each in detail.history
        ],
        messages=[
            SourceMessage(
                id=message_id(each.code),
                chat_id=chat_id(each.thread_code),
                role=each.role,
                content=each.content,
            )
            for each in detail.messages
        ],
    )
