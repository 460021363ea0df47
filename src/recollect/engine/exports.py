"""Leaving: everything that was chosen, in one snapshot, line by line and then byte by byte."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect import __version__
from recollect.domain import (
    NOWHERE,
    Caller,
    DocumentId,
    FileId,
    Ref,
    Right,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.engine.contexts import Context
from recollect.engine.core import Engine
from recollect.engine.named import user_named, workspace_named
from recollect.engine.reach import reach_of
from recollect.engine.records import FORMAT
from recollect.errors import Conflict, Invalid, NotFound, RateLimited
from recollect.store import assets, documents, events, exports, files, identity, imports
from recollect.store.exports import Choice
from recollect.store.identity import Workspace
from recollect.store.pool import Db, turn_to

Line = dict[str, Any]

# When to ask again while others are at it.
_FULL = timedelta(seconds=10)


class Leaving:
    """An export under way. The lines come first; the bytes belong to what they named."""

    def __init__(self, engine: Engine, db: Db, choices: Sequence[Choice]) -> None:
        self._engine = engine
        self._db = db
        self._choices = choices
        self._now = engine.now()
        self.counts: Counter[str] = Counter()

    async def expected(self) -> int:
        """How many memories and messages there will be."""
        total = 0
        for choice in self._choices:
            await turn_to(self._db, choice.workspace_id)
            total += sum(await exports.count(self._db, choice, self._now))
        return total

    async def lines(self) -> AsyncGenerator[Line]:
        """A header, every row after what it hangs on, and an end by which to see that it is all."""
        yield {
            "type": "recollect",
            "format": FORMAT,
            "version": __version__,
            "exported_at": self._now,
        }
        for choice in self._choices:
            await turn_to(self._db, choice.workspace_id)
            for kind in exports.KINDS:
                async for row in exports.rows(self._db, kind, choice, self._now):
                    self.counts[kind] += 1
                    yield {"type": kind, **row}
        yield {"type": "end", "lines": dict(self.counts)}

    async def attachments(self) -> AsyncGenerator[tuple[str, AsyncGenerator[bytes]]]:
        """The digest and the bytes of each asset and file, equal ones once."""
        seen: set[bytes] = set()
        for choice in self._choices:
            await turn_to(self._db, choice.workspace_id)
            async for kind, thing_id, digest in exports.attached(self._db, choice, self._now):
                if digest not in seen:
                    seen.add(digest)
                    yield digest.hex(), self._pieces(choice, kind, thing_id)

    async def _pieces(self, choice: Choice, kind: str, thing_id: UUID) -> AsyncGenerator[bytes]:
        if kind == "file":
            async for piece in files.pieces(self._db, choice.workspace_id, FileId(thing_id)):
                yield piece
            return
        number = 0
        while piece := await self._piece(choice.workspace_id, kind, thing_id, number):
            yield piece
            number += 1

    async def _piece(
        self, workspace_id: WorkspaceId, kind: str, thing_id: UUID, number: int
    ) -> bytes | None:
        if kind == "document":
            return await documents.piece(self._db, workspace_id, DocumentId(thing_id), number)
        return await assets.piece(self._db, workspace_id, thing_id, number)


@asynccontextmanager
async def leaving(engine: Engine, choices: Sequence[Choice]) -> AsyncGenerator[Leaving]:
    """An export of what is chosen, as it is at this moment; the audit knows of it."""
    first = choices[0]
    async with engine.pool.snapshot(first.workspace_id) as db:
        if first.sight and not await exports.is_only(db, first.sight.user_id):
            raise Conflict("Another export of yours is under way.", is_passing=True)
        if first.sight and not await exports.has_room(db):
            raise RateLimited(_FULL)
        export = Leaving(engine, db, choices)
        yield export
    for choice in choices:
        async with engine.pool.writing(choice.workspace_id) as db:
            await events.record(
                db,
                choice.workspace_id,
                "data.exported",
                actor=choice.sight.label if choice.sight else "operator",
                user_id=choice.sight and choice.sight.user_id,
                details={"lines": sum(export.counts.values())},
                at=engine.now(),
                is_private=choice.sight is not None,
            )


async def own_choices(engine: Engine, caller: Caller) -> list[Choice]:
    """What is the caller's own, wherever they may look, as far as they may see it."""
    caller.require(Right.READ)
    reach = await reach_of(engine, caller, Context())
    found = [
        Choice(each.workspace_id, each.org_id, user_id=each.user_id, sight=each)
        for each in reach.everywhere
        if each.workspace_id != NOWHERE
    ]
    if not found:
        raise Invalid("No workspace is active. Name one, or use a key of one.")
    return found


async def choices_of(
    engine: Engine,
    *,
    workspace: str | None,
    user: str | None = None,
    subject: str | None = None,
    thread: Ref | None = None,
    with_ended: bool = False,
) -> list[Choice]:
    """What an operator names: a workspace, or of it (or of all of its org) a user's part."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, workspace)
        user_id = await owner_named(db, found, user) if user else None
        places = [found]
        if user_id and workspace is None:
            places = await identity.workspaces(db, found.org_id)
        thread_id = None
        if thread:
            found, thread_id = await _thread(db, found, workspace, thread)
            places = [found]
    return [
        Choice(
            each.id,
            each.org_id,
            user_id=user_id,
            subject=subject,
            thread_id=thread_id,
            with_ended=with_ended,
        )
        for each in places
    ]


async def owner_named(db: Db, workspace: Workspace, wanted: str) -> UserId:
    """A user of the workspace's org, by login or id, archived ones too."""
    try:
        return (await user_named(db, wanted, workspace.org_id)).id
    except NotFound:
        known = await imports.find_login(db, wanted)
        raise Invalid(
            f"`{wanted}` is of another org. Name a workspace of theirs with `--workspace`."
            if known
            else f"There is no user `{wanted}`. `recollect user list` shows who there is."
        ) from None


async def _thread(
    db: Db, found: Workspace, workspace: str | None, ref: Ref
) -> tuple[Workspace, ThreadId]:
    """The thread, in the workspace that was named or in any."""
    places = [found] if workspace else await identity.workspaces(db)
    for place in places:
        thread_id = await exports.find_thread(db, place.id, ref)
        if thread_id:
            return place, thread_id
    raise NotFound("session")
