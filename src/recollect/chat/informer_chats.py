"""Create, list and change the Informer interface's chats, and run their turns."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect.chat.prompt import compose_messages
from recollect.conversations.messages import (
    EditMessage,
    ListMessages,
    NewMessage,
    append,
    append_within,
    edit_message,
    list_messages,
)
from recollect.conversations.queries import messages, threads
from recollect.conversations.threads import OpenThread, get_thread, open_within
from recollect.core.domain import (
    Caller,
    Json,
    KeyId,
    Message,
    Ref,
    RepeatKey,
    Right,
    Thread,
    new_code,
)
from recollect.core.errors import Conflict, NotFound, Unavailable
from recollect.core.prompt_fence import fence_memories, new_suffix, strip_fences
from recollect.db import idempotency
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.models.chat_model import ChatRoute, ModelRequest, OnText, storable
from recollect.search.semantic import Hit, Recall, recall
from recollect.usage.ledger import ask_on_account

_MAX_INJECTED = 5
# Required by the contract of this interface. It applies within one chat, to its own few memories.
_INJECTION_THRESHOLD = 0.6
_MAX_MESSAGES = 20
_MAX_TOKENS = 4_000

# Longer than a model may take for one answer. After that, the answering process counts as dead.
_CLAIM_TIME = timedelta(minutes=2)
# The claim of an answer belongs to its message, not to the API key of a request.
_NO_KEY = KeyId(UUID(int=0))

_MODEL = "modelId"
_INSTRUCTIONS = "instructions"
_INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ChangeChat:
    """Changes to a chat; None leaves a field unchanged."""

    name: str | None = None
    pinned: bool | None = None
    # Merged into the existing metadata, key by key.
    metadata: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A stored message that needs an answer: its thread, its model, and any earlier answer."""

    thread: Thread
    message: Message
    route: ChatRoute
    # An earlier answer; incomplete if the model failed halfway.
    earlier: Message | None
    # The public code of the answer, whether it exists yet or not.
    code: str
    # Tells a repeat of the request that the answer is in progress. None if it cannot be repeated.
    claim: RepeatKey | None = None

    @property
    def is_answered(self) -> bool:
        """Whether a complete answer exists."""
        return self.earlier is not None and not self.earlier.metadata.get(_INCOMPLETE)


async def list_chats(
    engine: Engine, caller: Caller, *, offset: int, limit: int
) -> tuple[list[Thread], int]:
    """Return chats, pinned ones first, then by last change; and their total number."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await threads.listed(db, caller, offset=offset, limit=limit, now=engine.now())


async def create_chat(
    engine: Engine, caller: Caller, ask: OpenThread, first: Sequence[NewMessage]
) -> Thread:
    """Create a chat with its first messages, if any, in one transaction."""
    async with engine.writing(caller) as db:
        thread = await open_within(engine, db, caller, ask)
        if not first:
            return thread
        await append_within(engine, db, caller, Ref(id=thread.id), first)
        found = await threads.find(db, caller, Ref(id=thread.id), engine.now())
    return found or thread


async def change_chat(engine: Engine, caller: Caller, ref: Ref, ask: ChangeChat) -> Thread:
    """Rename or pin a chat; equal values change nothing."""
    caller.require(Right.READ)
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        found = await threads.find(db, caller, ref, engine.now())
        if found is None:
            raise NotFound("chat")
        await threads.lock(db, caller.workspace_id, found.id)
        before = await threads.find(db, caller, Ref(id=found.id), engine.now())
        if before is None:
            raise NotFound("chat")
        after = replace(
            before,
            name=before.name if ask.name is None else ask.name,
            pinned=before.pinned if ask.pinned is None else ask.pinned,
            metadata={**before.metadata, **ask.metadata},
        )
        if after == before:
            return before
        after = replace(after, updated_at=engine.now())
        await threads.rename(db, after)
        await engine.record_event(
            db, caller, "session.renamed", {}, thread_code=after.code, subject=after.subject
        )
    return after


async def store_question(
    engine: Engine, caller: Caller, ref: Ref, new: NewMessage
) -> StoredQuestion:
    """Store the user's message before the model is asked.

    A message with the same client id or idempotency key is the same turn again. Raises `Conflict`
    while the answer to that turn is in progress, on any server.
    """
    caller.require(Right.READ)
    thread = await get_thread(engine, caller, ref)
    route = engine.chat_models.find(thread.metadata.get(_MODEL) or None)
    if route is None:
        raise Unavailable("chat model")
    new = replace(new, client_id=new.client_id or _client_id_of(caller.repeat_key))
    # A turn writes several times, so its writes cannot use the request's idempotency key. The
    # gateway stores the response under that key.
    caller = replace(caller, repeat_key=None)
    async with engine.writing(caller) as db:
        [stored] = await append_within(engine, db, caller, Ref(id=thread.id), [new])
        earlier = None if stored.is_new else await _find_answer(db, caller, stored.message)
        code = earlier.code if earlier else new_code()
        question = StoredQuestion(thread, stored.message, route, earlier, code)
        if question.is_answered or new.client_id is None:
            return question
        return replace(question, claim=await _claim(engine, db, caller, stored.message))


async def answer_question(
    engine: Engine, caller: Caller, question: StoredQuestion, on_text: OnText
) -> None:
    """Pass the answer to `on_text`: the stored one, or the model's, which is then stored.

    Relevant memories of this chat go into the prompt, as data. The model's answer is passed on
    piece by piece. An interrupted answer is stored as far as it came; a repeat of the turn
    replaces it.
    """
    if question.earlier and question.is_answered:
        on_text(question.earlier.content)
        return
    caller = replace(caller, repeat_key=None)
    try:
        await _answer(engine, caller, question, on_text)
    finally:
        await asyncio.shield(_release(engine, caller, question.claim))


async def _answer(
    engine: Engine, caller: Caller, question: StoredQuestion, on_text: OnText
) -> None:
    request = await _model_request(engine, caller, question)
    pieces: list[str] = []

    def pass_on(text: str) -> None:
        pieces.append(text)
        on_text(text)

    try:
        await ask_on_account(
            engine, caller.workspace_id, question.route, request, purpose="turn", on_text=pass_on
        )
    except BaseException:
        if pieces:
            await asyncio.shield(_store_answer(engine, caller, question, pieces, is_complete=False))
        raise
    await _store_answer(engine, caller, question, pieces, is_complete=True)


async def _model_request(engine: Engine, caller: Caller, question: StoredQuestion) -> ModelRequest:
    """Build the prompt: the last messages of the chat, with the question at the end."""
    thread, message = Ref(id=question.thread.id), question.message
    hits = await _recall(engine, caller, thread, message.content)
    page = await list_messages(
        engine, caller, thread, ListMessages(limit=_MAX_MESSAGES, is_newest_first=True)
    )
    own = {message.id, question.earlier.id} if question.earlier else {message.id}
    before = [each for each in reversed(page.messages) if each.id not in own]
    conversation = [{"role": each.role, "content": each.content} for each in [*before, message]]
    block = fence_memories([hit.memory for hit in hits], new_suffix()) if hits else None
    system = _system_messages(question.thread)
    prompt = compose_messages([*system, *conversation], stable=block, blocks={})
    return ModelRequest(prompt, max_tokens=_MAX_TOKENS)


async def _recall(engine: Engine, caller: Caller, thread: Ref, query: str) -> list[Hit]:
    if not query.strip():
        return []
    ask = Recall(query=query, limit=_MAX_INJECTED, threshold=_INJECTION_THRESHOLD, thread=thread)
    return (await recall(engine, caller, ask)).hits


async def _store_answer(
    engine: Engine,
    caller: Caller,
    question: StoredQuestion,
    pieces: Sequence[str],
    *,
    is_complete: bool,
) -> None:
    # The model may repeat the injected block. Stored with the answer, it would be learnt again.
    text = strip_fences(storable("".join(pieces)))
    metadata: dict[str, Any] = {"model": question.route.model}
    if question.earlier:
        edit = EditMessage(content=text, metadata=metadata | {_INCOMPLETE: not is_complete})
        await edit_message(engine, caller, Ref(id=question.earlier.id), edit)
        return
    answer = NewMessage(
        "assistant",
        text,
        metadata=metadata if is_complete else metadata | {_INCOMPLETE: True},
        client_id=_answer_client_id(question.message),
        code=question.code,
    )
    await append(engine, caller, Ref(id=question.thread.id), [answer])


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
