"""What this door takes and gives: camel case, HAL lists, ids as `chat-`, `msg-`, `mem-`."""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal, cast

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile

from recollect.domain import MESSAGE_PREFIXES, File, Message, Reason, Thread, parse_ref
from recollect.doors.files import parts_of
from recollect.doors.values import Body, Parameters, Time, iso
from recollect.engine import attachments
from recollect.engine.chats import ChangeChat
from recollect.engine.documents import label_of
from recollect.engine.messages import EditMessage, ListMessages, NewMessage
from recollect.engine.recall import Hit
from recollect.engine.segments import Counted, Made, MakeMemory
from recollect.engine.threads import OpenThread
from recollect.errors import Invalid, TooLarge

Role = Annotated[str, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Short = Annotated[str, Field(min_length=1, max_length=255)]
Object = dict[str, Any]
ReasonName = Literal[
    "user_created",
    "completed_discussion",
    "topic_change",
    "length_threshold",
    "time_threshold",
]

# What a chat or message has beside what the engine knows of it; kept in its metadata.
_OF_CHAT = ("modelId", "instructions")
_OF_MESSAGE = ("liked", "cost", "toolUses")

_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}")
# As base64 in a body of 8 MiB; a form may bring more.
_MOST_IN_JSON = 5 * 1024 * 1024


class SaidMessage(Body):
    """A message to keep. `clientId`: sent twice under one of yours, it is kept once."""

    role: Role = "user"
    content: str
    clientId: Short | None = None
    author: Short | None = None
    createdAt: Time | None = Field(default=None, description="When it was said. Default: now.")
    liked: bool | None = None
    cost: float | None = None
    toolUses: list[Any] | None = None


class SaidMessages(Body):
    """Several messages, kept together or not at all."""

    messages: Annotated[list[SaidMessage], Field(min_length=1, max_length=1_000)]


class NewChat(Body):
    """`POST /api/chats`."""

    name: Name | None = None
    modelId: Short | None = None
    instructions: str | None = Field(default=None, max_length=20_000)
    pinned: bool | None = None
    messages: Annotated[list[SaidMessage], Field(max_length=1_000)] | None = None


class ChatChange(Body):
    """`PUT /api/chats/{id}`: what is absent stays."""

    name: Name | None = None
    modelId: Short | None = None
    instructions: str | None = Field(default=None, max_length=20_000)
    pinned: bool | None = None


class MessageChange(Body):
    """`PUT /api/messages/{id}`: what is absent stays."""

    content: str | None = None
    liked: bool | None = None
    cost: float | None = None


class NewFile(Body):
    """A file as base64, at most 5 MiB of it."""

    filename: Short
    mediaType: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+-]+$", max_length=255)] = (
        "application/octet-stream"
    )
    data: str


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


class ChatParameters(Parameters):
    """`GET /api/chats`."""

    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=2**31)


class MessageParameters(Parameters):
    """`GET /api/chats/{id}/messages`; `after` is the id of the last message of the page before."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = None


class MemoryParameters(Parameters):
    """`GET /api/chats/{id}/memories`: all of them unless limited."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int | None = Field(default=None, ge=1, le=10_000)


class ChatObject(BaseModel):
    """A chat."""

    id: str
    name: str | None
    modelId: str | None
    instructions: str | None
    pinned: bool
    messageCount: int
    memoryCount: int
    createdAt: str
    updatedAt: str


class ChatPage(BaseModel):
    """Chats, pinned ones first, then by their last change."""

    total: int
    limit: int
    offset: int
    results: list[ChatObject]


class MessageObject(BaseModel):
    """A message."""

    id: str
    chatId: str
    role: str
    content: str
    author: str | None
    liked: bool | None
    cost: float | None
    memoryId: str | None
    toolUses: list[Any]
    createdAt: str
    editedAt: str | None


class MessageList(BaseModel):
    """Messages that were kept."""

    messages: list[MessageObject]


class BriefMessage(BaseModel):
    """A message as a memory shows it."""

    id: str
    role: str
    content: str
    createdAt: str


class FileObject(BaseModel):
    """A file of a message; its bytes are at `_links.self`."""

    id: str
    filename: str
    mediaType: str
    size: int
    createdAt: str


class FileList(BaseModel):
    """The files of a message."""

    files: list[FileObject]


class BriefFile(BaseModel):
    """A file as a memory shows it."""

    id: str
    filename: str
    size: int


class Hal(BaseModel):
    """A page of a list, as HAL."""

    model_config = ConfigDict(populate_by_name=True)

    links: dict[str, Any] = Field(alias="_links")
    embedded: dict[str, Any] = Field(alias="_embedded")
    start: int
    count: int
    total: int


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


def to_open(body: NewChat) -> OpenThread:
    """The verb's value."""
    return OpenThread(
        agent=None,
        name=body.name,
        pinned=bool(body.pinned),
        metadata=_noted(body, _OF_CHAT),
    )


def to_change_chat(body: ChatChange) -> ChangeChat:
    """The verb's value."""
    return ChangeChat(name=body.name, pinned=body.pinned, metadata=_noted(body, _OF_CHAT))


def to_message(body: SaidMessage) -> NewMessage:
    """The verb's value."""
    return NewMessage(
        role=body.role,
        content=body.content,
        author=body.author,
        metadata=_noted(body, _OF_MESSAGE),
        client_id=body.clientId,
        said_at=body.createdAt,
    )


def to_edit(body: MessageChange) -> EditMessage:
    """The verb's value."""
    return EditMessage(content=body.content, metadata=_noted(body, ("liked", "cost")))


def to_list(parameters: MessageParameters) -> ListMessages:
    """The verb's value."""
    beyond = None
    if parameters.after is not None:
        beyond = parse_ref(parameters.after, *MESSAGE_PREFIXES)
        if beyond is None:
            raise Invalid("`after` is no id of a message.", field="after")
    return ListMessages(limit=parameters.limit, start=parameters.start, beyond=beyond)


def to_make(body: NewMemory) -> MakeMemory:
    """The verb's value; an id that can be none is of no chat."""
    refs = [parse_ref(each, *MESSAGE_PREFIXES) for each in body.messageIds]
    known = [ref for ref in refs if ref is not None]
    if len(known) < len(refs):
        raise Invalid("`messageIds` names a message that is not of this chat.", field="messageIds")
    return MakeMemory(known, body.summary, Reason(body.reason or Reason.USER))


def to_new_file(body: bytes) -> attachments.NewFile:
    """A file that came as base64 in JSON."""
    try:
        told = NewFile.model_validate_json(body or b"null")
    except ValidationError as error:
        inside = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(inside) from None
    try:
        content = base64.b64decode(told.data, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("`data` is not base64.", field="data") from None
    if len(content) > _MOST_IN_JSON:
        raise TooLarge("data", most=_MOST_IN_JSON, unit="bytes")

    async def read() -> AsyncIterator[bytes]:
        yield content

    return attachments.NewFile(told.filename, told.mediaType, read)


def to_sent_file(file: UploadFile | str | None) -> attachments.NewFile:
    """A file that came in a form."""
    if not isinstance(file, UploadFile):
        raise Invalid("A form needs a field `file` with a file in it.", field="file")

    async def read() -> AsyncIterator[bytes]:
        await file.seek(0)
        async for part in parts_of(file):
            yield part

    given = file.content_type or ""
    media_type = given if _MEDIA_TYPE.fullmatch(given) else "application/octet-stream"
    return attachments.NewFile(label_of(file.filename or ""), media_type, read)


def _noted(body: BaseModel, names: Sequence[str]) -> Object:
    found = {name: getattr(body, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def from_chat(thread: Thread) -> ChatObject:
    """A chat in this door's spelling."""
    return ChatObject(
        id=chat_id(thread.code),
        name=thread.name,
        modelId=_text(thread.metadata.get("modelId")),
        instructions=_text(thread.metadata.get("instructions")),
        pinned=thread.pinned,
        messageCount=thread.message_count,
        memoryCount=thread.memory_count,
        createdAt=iso(thread.created_at),
        updatedAt=iso(thread.updated_at),
    )


def from_message(message: Message) -> MessageObject:
    """A message in this door's spelling."""
    noted = message.metadata
    liked, cost, uses = (noted.get(name) for name in _OF_MESSAGE)
    return MessageObject(
        id=message_id(message),
        chatId=chat_id(message.thread_code),
        role=message.role,
        content=message.content,
        author=message.author,
        liked=liked if isinstance(liked, bool) else None,
        cost=float(cost) if isinstance(cost, int | float) else None,
        memoryId=f"mem-{message.memory_code[:12]}" if message.memory_code else None,
        toolUses=cast("list[Any]", uses) if isinstance(uses, list) else [],
        createdAt=iso(message.created_at),
        editedAt=iso(message.edited_at) if message.edited_at else None,
    )


def from_file(file: File) -> FileObject:
    """A file in this door's spelling."""
    return FileObject(
        id=f"file-{file.code[:12]}",
        filename=file.filename,
        mediaType=file.media_type,
        size=file.size,
        createdAt=iso(file.created_at),
    )


def hal(path: str, relation: str, items: Sequence[BaseModel], *, start: int, total: int) -> Hal:
    """A page; the items are an array even when there is one or none."""
    return Hal(
        _links={"self": {"href": path}},
        _embedded={relation: [each.model_dump() for each in items]},
        start=start,
        count=len(items),
        total=total,
    )


def from_counted(counted: Counted) -> ListedMemory:
    """A memory in a list."""
    memory = counted.memory
    return ListedMemory(
        id=f"mem-{memory.code[:12]}",
        chatId=chat_id(memory.thread_code) if memory.thread_code else None,
        summary=memory.summary or memory.content,
        reason=memory.reason or Reason.USER,
        messageCount=counted.messages,
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def from_new(made: Made) -> NewMemoryObject:
    """A memory just made."""
    memory = made.memory
    return NewMemoryObject(
        id=f"mem-{memory.code[:12]}",
        chatId=chat_id(memory.thread_code) if memory.thread_code else None,
        summary=memory.summary or memory.content,
        reason=memory.reason or Reason.USER,
        messageCount=len(made.messages),
        embedding=made.embedding,
        createdAt=iso(memory.created_at),
    )


def from_made(made: Made) -> MemoryObject:
    """A memory with what it was made of."""
    memory = made.memory
    return MemoryObject(
        id=f"mem-{memory.code[:12]}",
        chatId=chat_id(memory.thread_code) if memory.thread_code else None,
        summary=memory.summary or memory.content,
        reason=memory.reason or Reason.USER,
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
                    id=f"mem-{hit.memory.code[:12]}",
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


def chat_id(code: str) -> str:
    """A chat's id at this door."""
    return f"chat-{code[:12]}"


def message_id(message: Message) -> str:
    """A message's id at this door."""
    return id_of_message(message.code)


def id_of_message(code: str) -> str:
    """The id at this door of a message with this code."""
    return f"msg-{code[:12]}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
