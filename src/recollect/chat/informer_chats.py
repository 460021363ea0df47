"""Create, list and change the Informer interface's chats."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.conversations.messages import NewMessage, append_within
from recollect.conversations.queries import threads
from recollect.conversations.threads import OpenThread, open_within
from recollect.core.domain import Caller, Json, Ref, Right, Thread
from recollect.core.errors import NotFound
from recollect.engine import Engine


@dataclass(frozen=True, slots=True)
class ChangeChat:
    """Changes to a chat; None leaves a field unchanged."""

    name: str | None = None
    pinned: bool | None = None
    # Merged into the existing metadata, key by key.
    metadata: Json = field(default_factory=dict[str, Any])


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
