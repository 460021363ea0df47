"""Wire format of chats and messages: camel case, HAL lists, ids like `chat-...`."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field

from recollect.api.fields import Body, Parameters, Time, iso
from recollect.chat.informer_chats import ChangeChat
from recollect.conversations.messages import EditMessage, ListMessages, NewMessage
from recollect.conversations.threads import OpenThread
from recollect.core.domain import MESSAGE_PREFIXES, Message, Thread, parse_ref
from recollect.core.errors import Invalid

Role = Annotated[str, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Short = Annotated[str, Field(min_length=1, max_length=255)]
Object = dict[str, Any]

# Fields that only this interface has. They are stored in the metadata of the chat or message.
_CHAT_FIELDS = ("modelId", "instructions")
_MESSAGE_FIELDS = ("liked", "cost", "toolUses")


class InformerNewMessage(Body):
    """A message to store. If two have the same `clientId`, only the first is stored."""

    role: Role = "user"
    content: str
    clientId: Short | None = None
    author: Short | None = None
    createdAt: Time | None = Field(default=None, description="When it was written. Default: now.")
    liked: bool | None = None
    cost: float | None = None
    toolUses: list[Any] | None = None


class InformerNewMessages(Body):
    """Several messages; all of them are stored, or none."""

    messages: Annotated[list[InformerNewMessage], Field(min_length=1, max_length=1_000)]


class InformerNewChat(Body):
    """`POST /api/chats`."""

    name: Name | None = None
    modelId: Short | None = None
    instructions: str | None = Field(default=None, max_length=20_000)
    pinned: bool | None = None
    messages: Annotated[list[InformerNewMessage], Field(max_length=1_000)] | None = None


class InformerChatChange(Body):
    """`PUT /api/chats/{id}`; absent fields stay unchanged."""

    name: Name | None = None
    modelId: Short | None = None
    instructions: str | None = Field(default=None, max_length=20_000)
    pinned: bool | None = None


class MessageChange(Body):
    """`PUT /api/messages/{id}`; absent fields stay unchanged."""

    content: str | None = None
    liked: bool | None = None
    cost: float | None = None


class InformerChatParameters(Parameters):
    """`GET /api/chats`."""

    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=2**31)


class MessageParameters(Parameters):
    """`GET /api/chats/{id}/messages`; `after` is the last message id of the previous page."""

    start: int = Field(default=0, ge=0, le=2**31)
    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = None


class InformerChatObject(BaseModel):
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
    """Chats, pinned ones first, then by last change."""

    total: int
    limit: int
    offset: int
    results: list[InformerChatObject]


class InformerMessageObject(BaseModel):
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
    """Stored messages."""

    messages: list[InformerMessageObject]


class Hal(BaseModel):
    """A page of a list in HAL format."""

    model_config = ConfigDict(populate_by_name=True)

    links: dict[str, Any] = Field(alias="_links")
    embedded: dict[str, Any] = Field(alias="_embedded")
    start: int
    count: int
    total: int


def to_open(body: InformerNewChat) -> OpenThread:
    """Convert the body of a new chat."""
    return OpenThread(
        agent=None,
        name=body.name,
        pinned=bool(body.pinned),
        metadata=_metadata(body, _CHAT_FIELDS),
    )


def to_change_chat(body: InformerChatChange) -> ChangeChat:
    """Convert the body of a change to a chat."""
    return ChangeChat(name=body.name, pinned=body.pinned, metadata=_metadata(body, _CHAT_FIELDS))


def to_message(body: InformerNewMessage) -> NewMessage:
    """Convert the body of a new message."""
    return NewMessage(
        role=body.role,
        content=body.content,
        author=body.author,
        metadata=_metadata(body, _MESSAGE_FIELDS),
        client_id=body.clientId,
        said_at=body.createdAt,
    )


def to_edit(body: MessageChange) -> EditMessage:
    """Convert the body of a change to a message."""
    return EditMessage(content=body.content, metadata=_metadata(body, ("liked", "cost")))


def to_list(parameters: MessageParameters) -> ListMessages:
    """Convert the parameters of a list of messages."""
    beyond = None
    if parameters.after is not None:
        beyond = parse_ref(parameters.after, *MESSAGE_PREFIXES)
        if beyond is None:
            raise Invalid("`after` must be the id of a message.", field="after")
    return ListMessages(limit=parameters.limit, start=parameters.start, beyond=beyond)


def _metadata(body: BaseModel, names: Sequence[str]) -> Object:
    found = {name: getattr(body, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def from_chat(thread: Thread) -> InformerChatObject:
    """Convert a chat to its wire form."""
    return InformerChatObject(
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


def from_message(message: Message) -> InformerMessageObject:
    """Convert a message to its wire form."""
    liked, cost, uses = (message.metadata.get(name) for name in _MESSAGE_FIELDS)
    return InformerMessageObject(
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
    """Build a HAL page; the items are always an array, even if there is one or none."""
    return Hal(
        _links={"self": {"href": path}},
        _embedded={relation: [each.model_dump() for each in items]},
        start=start,
        count=len(items),
        total=total,
    )


def chat_id(code: str) -> str:
    """Return a chat's id in this interface's form."""
    return f"chat-{code[:12]}"


def message_id(message: Message) -> str:
    """Return a message's id in this interface's form."""
    return id_of_message(message.code)


def id_of_message(code: str) -> str:
    """Return the id of the message with this code in this interface's form."""
    return f"msg-{code[:12]}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
