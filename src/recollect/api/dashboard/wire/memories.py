"""Wire models of memories: in lists, on the timeline, and in detail."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from recollect.api.dashboard.wire.common import (
    DashboardPage,
    DashboardPageParameters,
    Word,
    chat_id,
    memory_id,
    message_id,
    workspace_id,
)
from recollect.api.fields import Body, iso
from recollect.core.domain import Memory, MemoryId
from recollect.search.hybrid import SearchHit
from recollect.search.memory_browser import Facet, MemoryDetail, source_type


class DashboardMemoryParameters(DashboardPageParameters):
    """Which memories to list; with `q`, ordered by relevance."""

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


class DashboardNewMemory(Body):
    """`POST /chat/api/workspaces/{workspaceId}/memories`."""

    content: str
    category: str | None = None


class DashboardMemoryChange(Body):
    """`PATCH` of a memory: only its content."""

    content: str


class Pin(Body):
    """`POST .../memories/{memoryId}/pin`."""

    pinned: bool


class ChatMemoryObject(BaseModel):
    """A memory in the list of its chat."""

    id: str
    content: str
    summary: str | None
    category: str | None
    source_type: str
    created_at: str
    updated_at: str


class DashboardMemoryObject(ChatMemoryObject):
    """A memory."""

    source_chat_id: str | None
    source_message_id: str | None
    workspace_id: str
    pinned: bool
    tags: list[str]
    importance: float
    # Only in search results: the relevance, and the rank in each result list.
    score: float | None = None
    why: dict[str, Any] | None = None


class TimelineMemoryObject(DashboardMemoryObject):
    """A memory, when it was learnt, and when it was valid."""

    learned_at: str
    valid_from: str | None
    valid_until: str | None


class Timeline(DashboardPage[TimelineMemoryObject]):
    """Memories that were valid at a time, and when the oldest memory was learnt."""

    first_at: str | None


class ChatMemories(BaseModel):
    """`GET /chat/api/{chatId}/memories`."""

    memories: list[ChatMemoryObject]


class Count(BaseModel):
    """A count of memories."""

    count: int


class FacetObject(BaseModel):
    """A value to filter memories by, and how many memories have it."""

    name: str
    count: int


class ChatFacet(BaseModel):
    """A chat, and how many memories came from it."""

    id: str
    title: str | None
    count: int


class Facets(BaseModel):
    """Values to filter memories by, most frequent first."""

    categories: list[FacetObject]
    source_types: list[FacetObject]
    tags: list[FacetObject]
    chats: list[ChatFacet]


class LinkObject(BaseModel):
    """A link to another memory; `out` points from this one to the other."""

    relation: str
    direction: Literal["out", "in"]
    weight: float
    memory: DashboardMemoryObject


class MemoryEventObject(BaseModel):
    """An event in the history of a memory."""

    at: str
    event: str
    actor: str
    version: int | None
    # The content after the event, if known.
    content: str | None


class SourceMessage(BaseModel):
    """A message that a memory was derived from."""

    id: str
    chat_id: str
    role: str
    content: str


class DashboardMemoryDetail(DashboardMemoryObject):
    """A memory with its links, history and source messages."""

    quote: str | None
    reason: str | None
    source_note: str | None
    valid_from: str | None
    valid_until: str | None
    superseded_by: str | None
    replaces: list[DashboardMemoryObject]
    replaced_by: list[DashboardMemoryObject]
    links: list[LinkObject]
    history: list[MemoryEventObject]
    messages: list[SourceMessage]


def from_chat_memory(memory: Memory) -> ChatMemoryObject:
    """Return the wire form of a memory in the list of its chat."""
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
    memory: Memory, sources: Mapping[MemoryId, str], hit: SearchHit | None = None
) -> DashboardMemoryObject:
    """Return the wire form of a memory, with its source message and why it was found."""
    message = sources.get(memory.id)
    return DashboardMemoryObject(
        **from_chat_memory(memory).model_dump(),
        source_chat_id=chat_id(memory.thread_code) if memory.thread_code else None,
        source_message_id=message_id(message) if message else None,
        workspace_id=workspace_id(memory.workspace_id),
        pinned=memory.pinned,
        tags=list(memory.tags),
        importance=round(memory.importance, 4),
        score=round(hit.score, 6) if hit else None,
        why=_why(hit) if hit else None,
    )


def from_timeline_memory(listed: DashboardMemoryObject, memory: Memory) -> TimelineMemoryObject:
    """Return the wire form of a memory on the timeline."""
    return TimelineMemoryObject(
        **listed.model_dump(),
        learned_at=iso(memory.created_at),
        valid_from=iso(memory.valid_from) if memory.valid_from else None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
    )


def _why(hit: SearchHit) -> dict[str, Any]:
    return {
        str(each.source): {"rank": each.rank, "score": round(each.score, 6)} for each in hit.places
    }


def from_facets(found: Sequence[Facet]) -> Facets:
    """Return the wire form of the facets."""

    def of_kind(kind: str) -> list[FacetObject]:
        return [
            FacetObject(name=each.name, count=each.count) for each in found if each.kind == kind
        ]

    return Facets(
        categories=of_kind("category"),
        source_types=of_kind("source_type"),
        tags=of_kind("tag"),
        chats=[
            ChatFacet(id=chat_id(each.name), title=each.title, count=each.count)
            for each in found
            if each.kind == "chat"
        ],
    )


def from_detail(detail: MemoryDetail) -> DashboardMemoryDetail:
    """Return the wire form of a memory's detail view."""
    memory = detail.memory
    sources = {memory.id: detail.messages[0].code} if detail.messages else {}
    return DashboardMemoryDetail(
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
            for each in detail.links
        ],
        history=[
            MemoryEventObject(
                at=iso(each.action.at),
                event=each.action.action,
                actor=each.action.actor,
                version=each.action.version,
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
