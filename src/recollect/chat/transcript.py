"""Where a turn is stored: the user's message before the model is asked, the answer after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from recollect.chat.tool_rounds import MAX_STORED_CHARACTERS
from recollect.chat.turn_context import TurnContext
from recollect.conversations.messages import NewMessage, append_within
from recollect.core.domain import Caller, Message, Ref, ThreadId
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of
from recollect.learning.queries.inbox import InboxItem
from recollect.tenancy.thread_lookup import find_or_create_thread


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """The stored user's message, and the inbox item to learn from."""

    thread_id: ThreadId | None = None
    message: Message | None = None
    item: InboxItem | None = None


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The model's answer, without injected blocks that it repeated, as far as it came."""

    text: str
    model: str
    is_done: bool
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Transcript(Protocol):
    """Stores the two messages of a turn, each in a transaction of the turn."""

    async def store_question(self, db: Db) -> StoredQuestion:
        """Store the user's message, or find it if it is stored already."""
        ...

    async def store_answer(
        self, db: Db, thread_id: ThreadId | None, answer: AnswerText
    ) -> Message | None:
        """Store the answer; None if there is nothing to store, or no thread."""
        ...


class ThreadTranscript(Transcript):
    """Stores a turn in the thread that the request names, and learns from the user's message."""

    def __init__(self, engine: Engine, caller: Caller, context: TurnContext) -> None:
        self._engine = engine
        self._caller = caller
        self._context = context

    async def store_question(self, db: Db) -> StoredQuestion:
        """Store the user's message once, however often the turn is repeated."""
        context, thread_id = self._context, None
        if context.thread_name:
            thread = await find_or_create_thread(
                self._engine, db, self._caller, context.thread_name
            )
            thread_id = thread.id
        conversation = context.conversation
        text = conversation.user_text
        if conversation.current is None or not text:
            return StoredQuestion(thread_id)
        key = f"turn {conversation.digests[conversation.current].hex()}"
        message = await self._append(db, thread_id, NewMessage("user", text, client_id=key))
        source = LearningInput(
            text,
            "turn",
            self._engine.now(),
            subject=context.subject,
            thread_id=thread_id,
            key=key,
        )
        return StoredQuestion(thread_id, message, inbox_item_of(self._caller, source))

    async def store_answer(
        self, db: Db, thread_id: ThreadId | None, answer: AnswerText
    ) -> Message | None:
        """Store the answer as a new message."""
        if not answer.text:
            return None
        metadata = {
            "model": answer.model,
            **({} if answer.is_done else {"incomplete": True}),
            **answer.metadata,
        }
        return await self._append(
            db, thread_id, NewMessage("assistant", answer.text, metadata=metadata)
        )

    async def _append(
        self, db: Db, thread_id: ThreadId | None, message: NewMessage
    ) -> Message | None:
        if thread_id is None:
            return None
        shortened = replace(message, content=message.content[:MAX_STORED_CHARACTERS])
        [appended] = await append_within(
            self._engine, db, self._caller, Ref(id=thread_id), [shortened]
        )
        return appended.message
