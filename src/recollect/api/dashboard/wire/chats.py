"""Wire models of chats and their messages."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.api.dashboard.markdown import render
from recollect.api.dashboard.wire.common import (
    DashboardPageParameters,
    Title,
    Word,
    chat_id,
    memory_id,
    message_id,
    workspace_id,
)
from recollect.api.fields import Body, iso
from recollect.chat.dashboard_chats import MessageWithMemories, ShownMemory
from recollect.core.domain import Thread


class DashboardChatParameters(DashboardPageParameters):
    """Which chats to list: those of a workspace, or those that contain some words."""

    workspace: Word | None = None
    q: Word | None = None


class DashboardNewChat(Body):
    """`POST /chat/api/chats`."""

    title: Title | None = None
    workspace_id: str | None = None


class DashboardChatChange(Body):
    """`PATCH /chat/api/chats/{chatId}`."""

    title: Title


class DashboardChatObject(BaseModel):
    """A chat."""

    id: str
    title: str | None
    workspace_id: str
    created_at: str
    updated_at: str
    message_count: int


class DashboardChatDetail(DashboardChatObject):
    """A chat, and whether an answer for the caller is running in it."""

    is_answering: bool


class DashboardNewTurn(Body):
    """`POST /chat/api/chats/{chatId}/turns`. `content` is required except for a compaction."""

    content: Annotated[str, Field(max_length=100_000)] = ""
    kind: Literal["chat", "deep_think", "research", "compaction"] = "chat"
    model: Annotated[str, Field(max_length=255)] | None = None
    temporary: bool = False


class Stopped(BaseModel):
    """`POST /chat/api/chats/{chatId}/stop`: whether an answer ran on the server that was asked."""

    stopped: bool


class InjectedObject(BaseModel):
    """A memory that was in the model's prompt, and why."""

    memory_id: str
    content: str
    category: str | None
    score: float | None
    why: dict[str, Any]


class DashboardMessageObject(BaseModel):
    """A message of a chat. A message of a temporary turn is not stored and has no id."""

    id: str | None
    role: str
    content: str
    html: str
    created_at: str
    kind: str | None
    memory_id: str | None
    is_complete: bool
    is_stopped: bool
    injected: list[InjectedObject]


def from_thread(thread: Thread) -> DashboardChatObject:
    """Return the wire form of a chat."""
    return DashboardChatObject(
        id=chat_id(thread.code),
        title=thread.name,
        workspace_id=workspace_id(thread.workspace_id),
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
        message_count=thread.message_count,
    )


def from_message(entry: MessageWithMemories) -> DashboardMessageObject:
    """Return the wire form of a message, with the memories in its prompt."""
    message = entry.message
    return DashboardMessageObject(
        id=message_id(message.code),
        role=message.role,
        content=message.content,
        html=render(message.content),
        created_at=iso(message.created_at),
        kind=_text(message.metadata.get("kind")),
        memory_id=f"mem_{message.memory_code}" if message.memory_code else None,
        is_complete=not message.metadata.get("incomplete"),
        is_stopped=bool(message.metadata.get("stopped")),
        injected=[from_injected(each) for each in entry.shown],
    )


def from_temporary(role: str, content: str, at: datetime) -> DashboardMessageObject:
    """Return the wire form of a message of a temporary turn."""
    return DashboardMessageObject(
        id=None,
        role=role,
        content=content,
        html=render(content),
        created_at=iso(at),
        kind=None,
        memory_id=None,
        is_complete=True,
        is_stopped=False,
        injected=[],
    )


def from_injected(shown: ShownMemory) -> InjectedObject:
    """Return the wire form of a memory in the model's prompt."""
    return InjectedObject(
        memory_id=memory_id(shown.memory),
        content=shown.memory.content,
        category=shown.memory.category,
        score=shown.score,
        why=dict(shown.why),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
