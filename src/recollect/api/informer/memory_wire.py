"""Wire format of memories made from messages, with ids like `mem-...`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.api.fields import Body, Parameters, iso
from recollect.api.informer.wire import chat_id, message_id
from recollect.conversations.segments import MakeSegment, SegmentMemory, SegmentWithCount
from recollect.core.domain import MESSAGE_PREFIXES, Memory, SegmentReason, parse_ref
from recollect.core.errors import Invalid
from recollect.search.semantic import Hit

ReasonName = Literal[
    "user_created",
    "completed_discussion",
    "topic_change",
    "length_threshold",
    "time_threshold",
]


class InformerNewMemory(Body):
    """`POST /api/chats/{id}/memories`."""

    messageIds: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    summary: str | None = Field(default=None, min_length=1)
    reason: ReasonName | None = None


class Regenerate(Body):
    """`PUT /api/memories/{id}`."""

    action: Literal["regenerate"]


class InformerSearch(Body):
    """`POST /api/chats/{id}/memories/search`."""

    query: Annotated[str, Field(min_length=1, max_length=500)]
    limit: int = Field(default=5, ge=1, le=20)


class InformerMemoryParameters(Parameters):
    """`GET /api/chats/{id}/memories`; without `limit`, all of them."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int | None = Field(default=None, ge=1, le=10_000)


class BriefMessage(BaseModel):
    """A message of a memory."""

    id: str
    role: str
    content: str
    createdAt: str


class BriefFile(BaseModel):
    """A file of a memory."""

    id: str
    filename: str
    size: int


class ListedMemory(BaseModel):
    """A memory in a list."""

    id: str
    chatId: str | None
    summary: str
    reason: str
    messageCount: int
    createdAt: str
    updatedAt: str


class NewMemoryObject(BaseModel):
    """A new memory."""

    id: str
    chatId: str | None
    summary: str
    reason: str
    messageCount: int
    embedding: list[float]
    createdAt: str


class InformerMemoryObject(BaseModel):
    """A memory with its messages and files."""

    id: str
    chatId: str | None
    summary: str
    reason: str
    embedding: list[float]
    messages: list[BriefMessage]
    files: list[BriefFile]
    createdAt: str
    updatedAt: str


class BriefMemory(BaseModel):
    """A memory in a search result."""

    id: str
    summary: str
    messageCount: int


class FoundMemory(BaseModel):
    """A search result."""

    memory: BriefMemory
    score: float
    rank: int


class InformerSearchResult(BaseModel):
    """Search results, best first."""

    results: list[FoundMemory]
    query: str
    limit: int


def to_make(body: InformerNewMemory) -> MakeSegment:
    """Convert the body; a malformed message id cannot belong to the chat."""
    refs = [parse_ref(each, *MESSAGE_PREFIXES) for each in body.messageIds]
    valid = [ref for ref in refs if ref is not None]
    if len(valid) < len(refs):
        raise Invalid(
            "`messageIds` contains a message that is not in this chat.", field="messageIds"
        )
    return MakeSegment(valid, body.summary, SegmentReason(body.reason or SegmentReason.USER))


def from_listed(listed: SegmentWithCount) -> ListedMemory:
    """Convert a memory and its message count to an entry of a list."""
    memory = listed.memory
    return ListedMemory(
        **_common_fields(memory),
        messageCount=listed.messages,
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def from_new(segment: SegmentMemory) -> NewMemoryObject:
    """Convert a new memory to its wire form."""
    memory = segment.memory
    return NewMemoryObject(
        **_common_fields(memory),
        messageCount=len(segment.messages),
        embedding=segment.embedding,
        createdAt=iso(memory.created_at),
    )


def from_segment(segment: SegmentMemory) -> InformerMemoryObject:
    """Convert a memory with its messages and files to its wire form."""
    memory = segment.memory
    return InformerMemoryObject(
        **_common_fields(memory),
        embedding=segment.embedding,
        messages=[
            BriefMessage(
                id=message_id(each),
                role=each.role,
                content=each.content,
                createdAt=iso(each.created_at),
            )
            for each in segment.messages
        ],
        files=[
            BriefFile(id=f"file-{each.code[:12]}", filename=each.filename, size=each.size)
            for each in segment.files
        ],
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def from_hits(hits: Sequence[tuple[Hit, int]], body: InformerSearch) -> InformerSearchResult:
    """Convert search results to their wire form, best first."""
    return InformerSearchResult(
        results=[
            FoundMemory(
                memory=BriefMemory(
                    id=memory_id(hit.memory),
                    summary=hit.memory.summary or hit.memory.content,
                    messageCount=count,
                ),
                score=min(max(hit.score, 0.0), 1.0),
                rank=rank,
            )
            for rank, (hit, count) in enumerate(hits, start=1)
        ],
        query=body.query,
        limit=body.limit,
    )


def _common_fields(memory: Memory) -> dict[str, Any]:
    """Return the fields that every wire form of a memory has."""
    return {
        "id": memory_id(memory),
        "chatId": chat_id(memory.thread_code) if memory.thread_code else None,
        "summary": memory.summary or memory.content,
        "reason": memory.reason or SegmentReason.USER,
    }


def memory_id(memory: Memory) -> str:
    """Return a memory's id in this interface's form."""
    return f"mem-{memory.code[:12]}"
