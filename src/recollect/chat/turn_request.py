"""A request for a turn: its body, what it may do with memory, and where it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from recollect.chat.injection import Recaller
from recollect.chat.transcript import Transcript
from recollect.core.domain import MessageId

Object = dict[str, Any]


class MemoryMode(StrEnum):
    """What a turn may do with memory."""

    ON = "on"
    READ = "read"
    WRITE = "write"
    OFF = "off"

    @property
    def reads(self) -> bool:
        """Whether memories may be injected into the prompt."""
        return self in {MemoryMode.ON, MemoryMode.READ}

    @property
    def writes(self) -> bool:
        """Whether the turn may be stored and learnt from."""
        return self in {MemoryMode.ON, MemoryMode.WRITE}


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A request for one turn: its bytes, its parsed body, and its user and thread.

    `raw` is empty if the body was already changed.
    """

    raw: bytes
    body: Object
    mode: MemoryMode = MemoryMode.ON
    thread: str | None = None
    subject: str | None = None
    agent: str | None = None
    # One of `turn_kinds`: the answers of these kinds are learnt from too. Plain turns are `chat`.
    kind: str = "chat"
    # Whether the sink distils the outcome at once; otherwise the worker does.
    is_awaited: bool = False
    # Whether the model is offered the built-in tools, and whether it may store files with them.
    offers_tools: bool = True
    makes_artifacts: bool = False
    # Stored messages that are part of the request: a memory made of these alone adds nothing.
    prompt_message_ids: frozenset[MessageId] = frozenset()
    # Whether the sink translates the answer into another format. Such a sink parses every chunk
    # and shows the client our tool calls, so the client sends them back with its next request.
    is_translated: bool = False
    # Headers to send upstream.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    # Finds the memories to inject; None is `recall_for_turn`.
    recall: Recaller | None = None
    # Where the turn is stored; None is the thread named above, created if there is none.
    transcript: Transcript | None = None
    # None is the engine's deadline.
    deadline: timedelta | None = None
