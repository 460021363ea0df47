"""The parts of a turn that are specific to the Informer interface; `turn` runs them.

The user's message is stored before the model is asked, and a claim keeps a second server from
answering it too. The prompt is the end of the chat, and only memories of this chat are recalled.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect.chat.injection import InjectedMemories, InjectionState, Recaller
from recollect.chat.transcript import AnswerText, StoredQuestion, Transcript
from recollect.chat.turn import run_turn
from recollect.chat.turn_context import TurnContext
from recollect.chat.turn_request import TurnRequest
from recollect.chat.turn_sink import TurnSink
from recollect.conversations.messages import (
    EditMessage,
    ListMessages,
    NewMessage,
    append_within,
    edit_within,
    list_messages,
)
from recollect.conversations.queries import messages
from recollect.conversations.threads import get_thread
from recollect.core.domain import (
    Caller,
    KeyId,
    Message,
    Ref,
    RepeatKey,
    Right,
    Thread,
    ThreadId,
    new_code,
)
from recollect.core.errors import Conflict, Unavailable
from recollect.core.prompt_fence import fence_memories, new_suffix
from recollect.db import idempotency
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.search.semantic import Recall, recall

_MAX_INJECTED = 5
# Required by the contract of this interface. It applies within one chat, to its own few memories.
_INJECTION_THRESHOLD = 0.6
_MAX_MESSAGES = 20
_MAX_TOKENS = 4_000

_DEADLINE = timedelta(minutes=1)
# Longer than the deadline. After that, the answering process counts as dead.
_CLAIM_TIME = timedelta(minutes=2)
# The claim of an answer belongs to its message, not to the API key of a request.
_NO_KEY = KeyId(UUID(int=0))

_MODEL = "modelId"
_INSTRUCTIONS = "instructions"
_INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A stored message that needs an answer: its thread, its model, and any earlier answer."""

    thread: Thread
    message: Message
    # An earlier answer; incomplete if the model failed halfway.
    earlier: Message | None
    # The public code of the answer, whether it exists yet or not.
    code: str
    # Tells a repeat of the request that the answer is in progress. None if it cannot be repeated.
    claim: RepeatKey | None = None

    @property
    def answer(self) -> str | None:
        """The earlier answer, if it is complete."""
        if self.earlier is None or self.earlier.metadata.get(_INCOMPLETE):
            return None
        return self.earlier.content


async def store_question(engine: Engine, caller: Caller, ref: Ref, new: NewMessage) -> ChatQuestion:
    """Store the user's message before the model is asked.

    A message with the same client id or idempotency key is the same turn again. Raises `Conflict`
    while the answer to that turn is in progress, on any server.
    """
    caller.require(Right.READ)
    thread = await get_thread(engine, caller, ref)
    if engine.chat_models.find(thread.metadata.get(_MODEL) or None) is None:
        raise Unavailable("chat model")
    new = replace(new, client_id=new.client_id or _client_id_of(caller.repeat_key))
    # A turn writes several times, so its writes cannot use the request's idempotency key. The
    # gateway stores the response under that key.
    caller = replace(caller, repeat_key=None)
    async with engine.writing(caller) as db:
        [stored] = await append_within(engine, db, caller, Ref(id=thread.id), [new])
        earlier = None if stored.is_new else await _find_answer(db, caller, stored.message)
        code = earlier.code if earlier else new_code()
        question = ChatQuestion(thread, stored.message, earlier, code)
        if question.answer is not None or new.client_id is None:
            return question
        return replace(question, claim=await _claim(engine, db, caller, stored.message))


async def answer_question(
    engine: Engine, caller: Caller, question: ChatQuestion, sink: TurnSink
) -> None:
    """Run the turn that answers the question.

    An interrupted answer is stored as far as it came; a repeat of the turn replaces it.
    """
    caller = replace(caller, repeat_key=None)
    try:
        ask = await _turn_request(engine, caller, question)
        await run_turn(engine, caller, ask, sink)
    finally:
        await asyncio.shield(_release(engine, caller, question.claim))


async def _turn_request(engine: Engine, caller: Caller, question: ChatQuestion) -> TurnRequest:
    """Build the prompt: the last messages of the chat, with the question at the end."""
    thread, message = Ref(id=question.thread.id), question.message
    page = await list_messages(
        engine, caller, thread, ListMessages(limit=_MAX_MESSAGES, is_newest_first=True)
    )
    own = {message.id, question.earlier.id} if question.earlier else {message.id}
    before = [each for each in reversed(page.messages) if each.id not in own]
    conversation = [{"role": each.role, "content": each.content} for each in [*before, message]]
    prompt = [*_system_messages(question.thread), *conversation]
    body: dict[str, Any] = {"messages": prompt, "max_tokens": _MAX_TOKENS, "stream": True}
    if model := question.thread.metadata.get(_MODEL):
        body["model"] = model
    return TurnRequest(
        raw=b"",
        body=body,
        offers_tools=False,
        is_translated=True,
        recall=_recall_from(thread),
        transcript=_ChatTranscript(engine, caller, question),
        deadline=_DEADLINE,
    )


def _recall_from(thread: Ref) -> Recaller:
    """Recall memories of this chat only, as one block for the system message."""

    async def recall_in_chat(
        engine: Engine, caller: Caller, context: TurnContext
    ) -> InjectedMemories:
        query = context.conversation.user_text
        if not query:
            return InjectedMemories(InjectionState.NONE)
        ask = Recall(
            query=query, limit=_MAX_INJECTED, threshold=_INJECTION_THRESHOLD, thread=thread
        )
        hits = (await recall(engine, caller, ask)).hits
        if not hits:
            return InjectedMemories(InjectionState.NONE)
        block = fence_memories([hit.memory for hit in hits], new_suffix())
        return InjectedMemories(InjectionState.USED, stable=block, recalled=hits)

    return recall_in_chat


class _ChatTranscript(Transcript):
    """Stores the answer to a question that has already been stored."""

    def __init__(self, engine: Engine, caller: Caller, question: ChatQuestion) -> None:
        self._engine = engine
        self._caller = caller
        self._question = question

    async def store_question(self, db: Db) -> StoredQuestion:
        """Do nothing: `store_question` above has stored it."""
        del db
        return StoredQuestion(self._question.thread.id)

    async def store_answer(
        self, db: Db, thread_id: ThreadId | None, answer: AnswerText
    ) -> Message | None:
        """Store the answer, replacing an earlier incomplete one."""
        question = self._question
        if not answer.text and not answer.is_done:
            return None
        metadata: dict[str, Any] = {"model": answer.model}
        if question.earlier:
            edit = EditMessage(
                content=answer.text, metadata=metadata | {_INCOMPLETE: not answer.is_done}
            )
            ref = Ref(id=question.earlier.id)
            return await edit_within(self._engine, db, self._caller, ref, edit)
        new = NewMessage(
            "assistant",
            answer.text,
            metadata=metadata if answer.is_done else metadata | {_INCOMPLETE: True},
            client_id=_answer_client_id(question.message),
            code=question.code,
        )
        [appended] = await append_within(self._engine, db, self._caller, Ref(id=thread_id), [new])
        return appended.message


async def _find_answer(db: Db, caller: Caller, message: Message) -> Message | None:
    client_id = _answer_client_id(message)
    found = await messages.by_client_id(db, caller, message.thread_id, [client_id])
    if found:
        return found[client_id]
    # Otherwise the next message, if it is an assistant's without a client id: a client stored it.
    after = await messages.page(
        db, caller, message.thread_id, beyond=message.sort_position, limit=1
    )
    is_answer = after and after[0].role == "assistant" and after[0].client_id is None
    return after[0] if is_answer else None


def _answer_client_id(message: Message) -> str:
    """Return the client id of the answer to a message: each message has one answer."""
    return f"answer {message.code}"


def _client_id_of(repeat_key: RepeatKey | None) -> str | None:
    return f"once {repeat_key.key_id} {repeat_key.token}" if repeat_key else None


async def _claim(engine: Engine, db: Db, caller: Caller, message: Message) -> RepeatKey:
    now = engine.now()
    claim = RepeatKey(_NO_KEY, "turn", message.code, locked_until=now + _CLAIM_TIME)
    if await idempotency.claim(db, caller.workspace_id, claim, b"", now):
        raise Conflict(
            "The answer to this message is still in progress. Try again later.", is_temporary=True
        )
    return claim


async def _release(engine: Engine, caller: Caller, claim: RepeatKey | None) -> None:
    """Release the claim. If the database is unavailable, the claim expires by itself."""
    if claim is None:
        return
    with suppress(Unavailable):
        async with engine.pool.writing(caller.workspace_id) as db:
            await idempotency.release(db, caller.workspace_id, claim)


def _system_messages(thread: Thread) -> list[dict[str, Any]]:
    text = str(thread.metadata.get(_INSTRUCTIONS) or "")
    return [{"role": "system", "content": text}] if text else []
