"""Chats and messages as this door takes and gives them: camel case, HAL lists, ids as `chat-`."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field

from recollect.domain import MESSAGE_PREFIXES, Message, Thread, parse_ref
from recollect.doors.values import Body, Parameters, Time, iso
from recollect.engine.chats import ChangeChat
from recollect.engine.messages import EditMessage, ListMessages, NewMessage
from recollect.engine.threads import OpenThread
from recollect.errors import Invalid

Role = Annotated[str, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Short = Annotated[str, Field(min_length=1, max_length=255)]
Object = dict[str, Any]

# What a chat or message has beside what the engine knows of it; kept in its metadata.
_OF_CHAT = ("modelId", "instructions")
_OF_MESSAGE = ("liked", "cost", "toolUses")


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


class ChatParameters(Parameters):
    """`GET /api/chats`."""

    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=2**31)


class MessageParameters(Parameters):
    """`GET /api/chats/{id}/messages`; `after` is the id of the last message of the page before."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = None


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


class Hal(BaseModel):
    """A page of a list, as HAL."""

    model_config = ConfigDict(populate_by_name=True)

    links: dict[str, Any] = Field(alias="_links")
    embedded: dict[str, Any] = Field(alias="_embedded")
    start: int
    count: int
    total: int


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


def hal(path: str, relation: str, items: Sequence[BaseModel], *, start: int, total: int) -> Hal:
    """A page; the items are an array even when there is one or none."""
    return Hal(
        _links={"self": {"href": path}},
        _embedded={relation: [each.model_dump() for each in items]},
        start=start,
        count=len(items),
        total=total,
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
