"""Memories made of messages as this door takes and gives them, with ids as `mem-`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.domain import MESSAGE_PREFIXES, Memory, Reason, parse_ref
from recollect.doors.informer.wire import chat_id, message_id
from recollect.doors.values import Body, Parameters, iso
from recollect.engine.recall import Hit
from recollect.engine.segments import Counted, Made, MakeMemory
from recollect.errors import Invalid

ReasonName = Literal[
    "user_created",
    "completed_discussion",
    "topic_change",
    "length_threshold",
    "time_threshold",
]


class NewMemory(Body):
    """`POST /api/chats/{id}/memories`."""

    messageIds: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    summary: str | None = Field(default=None, min_length=1)
    reason: ReasonName | None = None


class Regenerate(Body):
    """`PUT /api/memories/{id}`."""

    action: Literal["regenerate"]


class Search(Body):
    """`POST /api/chats/{id}/memories/search`."""

    query: Annotated[str, Field(min_length=1, max_length=500)]
    limit: int = Field(default=5, ge=1, le=20)


class MemoryParameters(Parameters):
    """`GET /api/chats/{id}/memories`: all of them unless limited."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int | None = Field(default=None, ge=1, le=10_000)


class BriefMessage(BaseModel):
    """A message as a memory shows it."""

    id: str
    role: str
    content: str
    createdAt: str


class BriefFile(BaseModel):
    """A file as a memory shows it."""

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
    """A memory just made."""

    id: str
    chatId: str | None
    summary: str
    reason: str
    messageCount: int
    embedding: list[float]
    createdAt: str


class MemoryObject(BaseModel):
    """A memory with what it was made of."""

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
    """A memory as a search shows it."""

    id: str
    summary: str
    messageCount: int


class FoundMemory(BaseModel):
    """A search result."""

    memory: BriefMemory
    score: float
    rank: int


class SearchResult(BaseModel):
    """What a search found, best first."""

    results: list[FoundMemory]
    query: str
    limit: int


def to_make(body: NewMemory) -> MakeMemory:
    """The verb's value; an id that can be none is of no chat."""
    refs = [parse_ref(each, *MESSAGE_PREFIXES) for each in body.messageIds]
    known = [ref for ref in refs if ref is not None]
    if len(known) < len(refs):
        raise Invalid("`messageIds` names a message that is not of this chat.", field="messageIds")
    return MakeMemory(known, body.summary, Reason(body.reason or Reason.USER))


def from_counted(counted: Counted) -> ListedMemory:
    """A memory in a list."""
    memory = counted.memory
    return ListedMemory(
        **_shown(memory),
        messageCount=counted.messages,
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def from_new(made: Made) -> NewMemoryObject:
    """A memory just made."""
    memory = made.memory
    return NewMemoryObject(
        **_shown(memory),
        messageCount=len(made.messages),
        embedding=made.embedding,
        createdAt=iso(memory.created_at),
    )


def from_made(made: Made) -> MemoryObject:
    """A memory with what it was made of."""
    memory = made.memory
    return MemoryObject(
        **_shown(memory),
        embedding=made.embedding,
        messages=[
            BriefMessage(
                id=message_id(each),
                role=each.role,
                content=each.content,
                createdAt=iso(each.created_at),
            )
            for each in made.messages
        ],
        files=[
            BriefFile(id=f"file-{each.code[:12]}", filename=each.filename, size=each.size)
            for each in made.files
        ],
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def from_hits(hits: Sequence[tuple[Hit, int]], body: Search) -> SearchResult:
    """What a search found, best first."""
    return SearchResult(
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


def _shown(memory: Memory) -> dict[str, Any]:
    """What is told of a memory wherever it is told of."""
    return {
        "id": memory_id(memory),
        "chatId": chat_id(memory.thread_code) if memory.thread_code else None,
        "summary": memory.summary or memory.content,
        "reason": memory.reason or Reason.USER,
    }


def memory_id(memory: Memory) -> str:
    """A memory's id at this door."""
    return f"mem-{memory.code[:12]}"
