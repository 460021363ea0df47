"""Chats and what was said in them in this door's JSON."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.domain import Thread
from recollect.doors.dashboard.markdown import render
from recollect.doors.dashboard.wire import (
    PageParameters,
    Title,
    Word,
    chat_id,
    memory_id,
    message_id,
    workspace_id,
)
from recollect.doors.values import Body, iso
from recollect.engine.talk import Shown, Told


class ChatParameters(PageParameters):
    """Which chats to list: of a workspace, those that hold some words."""

    workspace: Word | None = None
    q: Word | None = None


class NewChat(Body):
    """`POST /chat/api/chats`."""

    title: Title | None = None
    workspace_id: str | None = None


class ChatChange(Body):
    """`PATCH /chat/api/chats/{chatId}`."""

    title: Title


class ChatObject(BaseModel):
    """A chat."""

    id: str
    title: str | None
    workspace_id: str
    created_at: str
    updated_at: str
    message_count: int


class OneChat(ChatObject):
    """A chat by itself, and whether an answer of the caller's is under way in it."""

    is_answering: bool


class NewTurn(Body):
    """`POST /chat/api/chats/{chatId}/turns`; only a compaction needs no content."""

    content: Annotated[str, Field(max_length=100_000)] = ""
    kind: Literal["chat", "deep_think", "research", "compaction"] = "chat"
    model: Annotated[str, Field(max_length=255)] | None = None
    temporary: bool = False


class Stopped(BaseModel):
    """`POST /chat/api/chats/{chatId}/stop`: whether something was under way where it was asked."""

    stopped: bool


class InjectedObject(BaseModel):
    """A memory that the model was shown, and why."""

    memory_id: str
    content: str
    category: str | None
    score: float | None
    why: dict[str, Any]


class MessageObject(BaseModel):
    """Something said in a chat; one of a temporary turn has no id, for it is nowhere kept."""

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


def from_thread(thread: Thread) -> ChatObject:
    """A chat as it is shown."""
    return ChatObject(
        id=chat_id(thread.code),
        title=thread.name,
        workspace_id=workspace_id(thread.workspace_id),
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
        message_count=thread.message_count,
    )


def from_told(told: Told) -> MessageObject:
    """A message as it is shown, with the memories behind it."""
    message = told.message
    return MessageObject(
        id=message_id(message.code),
        role=message.role,
        content=message.content,
        html=render(message.content),
        created_at=iso(message.created_at),
        kind=_text(message.metadata.get("kind")),
        memory_id=f"mem_{message.memory_code}" if message.memory_code else None,
        is_complete=not message.metadata.get("incomplete"),
        is_stopped=bool(message.metadata.get("stopped")),
        injected=[from_shown(each) for each in told.shown],
    )


def from_passing(role: str, content: str, at: datetime) -> MessageObject:
    """A message of a temporary turn."""
    return MessageObject(
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


def from_shown(shown: Shown) -> InjectedObject:
    """A memory that the model was shown."""
    return InjectedObject(
        memory_id=memory_id(shown.memory),
        content=shown.memory.content,
        category=shown.memory.category,
        score=shown.score,
        why=dict(shown.why),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
