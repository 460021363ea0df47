"""The user, the thread and the messages of a turn: shared by recall, tools and transcript. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.chat.prompt import text_of, user_message_digests
from recollect.core.domain import Filter, MessageId, ThreadId
from recollect.core.prompt_fence import strip_fences
from recollect.tenancy.thread_lookup import ThreadName

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request, read once."""

    messages: Sequence[Object] = ()
    # For each user message, by index: a digest of the conversation up to it.
    digests: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    # The text of the last user message, without injected blocks.
    user_text: str = ""

    @property
    def current(self) -> int | None:
        """The index of the user message to answer; None if the last message is not the user's."""
        last = len(self.messages) - 1
        return last if last in self.digests else None


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The turn in which memories are recalled and tools are called: its user and its thread."""

    conversation: Conversation = field(default_factory=Conversation)
    subject: str | None = None
    thread_name: ThreadName | None = None
    thread_id: ThreadId | None = None
    # Whether the turn may be learnt from.
    learns: bool = False
    # Whether the model may store files in the workspace.
    makes_artifacts: bool = False
    # Unique per turn. Call ids are not: models choose them freely.
    turn: str = ""
    # The stored messages that are part of the prompt.
    prompt_message_ids: frozenset[MessageId] = frozenset()

    @property
    def visible(self) -> Filter:
        """The memories this turn may see: all, or those about its subject and about no subject."""
        return Filter(subject=self.subject, includes_subjectless=self.subject is not None)


def read_conversation(messages: Sequence[Object], seed: str) -> Conversation:
    """Read the messages of a request. `seed` separates the conversations of different people."""
    return Conversation(messages, user_message_digests(messages, seed), _last_user_text(messages))


def _last_user_text(messages: Sequence[Object]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            return strip_fences(text_of(message.get("content"))).strip()
    return ""
