"""Coming in: lines of an export, or of something made to look like one, each kept once.

Every batch is a transaction of its own: what was kept stays, and running it again goes on where it
stopped. A line that cannot be kept is told and costs no other.
"""

import asyncio
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Protocol
from uuid import UUID, uuid5

from recollect.domain import (
    NOWHERE,
    Caller,
    MemoryId,
    OrgId,
    Right,
    ThreadId,
    UserId,
    WorkspaceId,
    code_from,
)
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.documents import READ
from recollect.engine.learning import DISTIL, Said, lesson_of
from recollect.engine.messages import SEGMENT
from recollect.engine.pieces import take_in as take_in_pieces
from recollect.engine.records import KINDS, REFERENCES, Broken, checked
from recollect.engine.save import content_digest, kind_of, text_to_index
from recollect.engine.words import terms
from recollect.errors import Conflict, Invalid, RateLimited
from recollect.store import events, exports, imports, jobs, lessons, words
from recollect.store.imports import Row
from recollect.store.jobs import NewJob
from recollect.store.pool import Db, savepoint, together

_MOST_ROWS = 200
_MOST_BYTES = 4 * 1024 * 1024
# So many refusals are remembered; all are counted, and told as they come.
_MOST_REMEMBERED = 1_000
# When to ask again while others are at it.
_FULL = timedelta(seconds=10)

# What a kind hangs on, in which fields.
_PARENTS: Mapping[str, Mapping[str, str]] = {
    "project_member": {"project_id": "project"},
    "agent": {"project_id": "project"},
    "state": {"thread_id": "thread"},
    "turn": {"thread_id": "thread"},
    "message": {"thread_id": "thread"},
    "file": {"message_id": "message"},
    "past": {"memory_id": "memory"},
    "link": {"source_id": "memory", "target_id": "memory"},
    "source": {"memory_id": "memory"},
    "made_of": {"memory_id": "memory", "message_id": "message"},
    "segment": {"memory_id": "memory"},
    "asset": {"memory_id": "memory"},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to keep: where it stands in what was read, its kind, and its fields."""

    where: str
    type: str
    raw: Mapping[str, Any]
    size: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not kept, and why."""

    where: str
    type: str
    why: str


class Attachments(Protocol):
    """Where the bytes of assets and files are."""

    def pieces(self, digest: str, size: int) -> Iterator[bytes] | None:
        """The bytes of that digest, no more than `size` of them; None when they are missing."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """Where it goes, and under which ids."""

    workspace_id: WorkspaceId
    org_id: OrgId
    # Everything becomes this user's; None: each is its own user's, who is found by login or made.
    owner: UserId | None = None
    # Other ids than in the file, and for the same line always the same.
    new_ids: bool = False
    # Conversations that were never cut into memories: the segmenter shall look at them.
    is_to_segment: bool = False
    # And what the user said in them shall be learnt from, as from any turn.
    is_to_learn: bool = False
    # Who brings it over the network; None: the operator, at the machine itself. It becomes theirs
    # under new ids made of their own, so that no line can name, meet or tell of what is another's.
    by: Caller | None = None


@dataclass(slots=True)
class Report:
    """What became of it."""

    kept: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    # Refusals, up to a thousand of them.
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    # What was left out on purpose, such as an answer that somebody had made anew.
    left_out: Counter[str] = field(default_factory=Counter[str])


Watch = Callable[[Report], None]
Tell = Callable[[Refusal], None]


async def take_in(
    engine: Engine,
    target: Target,
    lines: Iterable[Line | Refusal],
    *,
    attachments: Attachments,
    is_dry_run: bool = False,
    watch: Watch = lambda _: None,
    tell: Tell = lambda _: None,
) -> Report:
    """Keep the lines. A dry run does all of it and undoes it at the end."""
    report = Report()
    async for report in taking_in(
        engine, target, lines, attachments=attachments, is_dry_run=is_dry_run, tell=tell
    ):
        watch(report)
    return report


async def taking_in(
    engine: Engine,
    target: Target,
    lines: Iterable[Line | Refusal],
    *,
    attachments: Attachments,
    is_dry_run: bool = False,
    tell: Tell = lambda _: None,
) -> AsyncGenerator[Report]:
    """As `take_in`, with the report so far after each batch; the last one is the whole."""
    intake = _Intake(engine, target, attachments, tell)
    batches = _batches(lines, intake.refuse)
    if is_dry_run:
        with suppress(_Undone):
            async with _writing(engine, target) as db:
                while batch := await _next(batches):
                    await intake.take(db, batch)
                    yield intake.report
                raise _Undone
        yield intake.report
        return
    while batch := await _next(batches):
        async with _writing(engine, target) as db:
            await intake.take(db, batch)
        yield intake.report
    async with _writing(engine, target) as db:
        await events.record(
            db,
            target.workspace_id,
            "data.imported",
            actor=target.by.label if target.by else "operator",
            user_id=target.by and target.by.user_id,
            details={"kept": dict(intake.report.kept)},
            at=engine.now(),
            is_private=target.by is not None,
        )
    yield intake.report


def own_target(caller: Caller, *, is_foreign: bool, is_to_learn: bool = False) -> Target:
    """Where something goes that its user brings: into the workspace they are in, as theirs."""
    caller.require(Right.WRITE)
    if caller.workspace_id == NOWHERE:
        raise Invalid("No workspace is active. Name one, or use a key of one.")
    return Target(
        workspace_id=caller.workspace_id,
        org_id=caller.org_id,
        owner=caller.user_id,
        new_ids=True,
        is_to_segment=is_foreign,
        is_to_learn=is_foreign and is_to_learn,
        by=caller,
    )


@asynccontextmanager
async def one_at_a_time(engine: Engine, caller: Caller) -> AsyncGenerator[None]:
    """Nothing else of this user's leaves or comes in meanwhile, and little of anybody's."""
    async with engine.pool.everywhere() as db:
        if not await exports.is_only(db, caller.user_id):
            raise Conflict("Another export or import of yours is under way.", is_passing=True)
        if not await exports.has_room(db):
            raise RateLimited(_FULL)
        yield


def _writing(engine: Engine, target: Target) -> AbstractAsyncContextManager[Db]:
    """A transaction; of what somebody brings, one that keeps them from being erased meanwhile."""
    if target.by:
        return engine.pool.writing_as(target.workspace_id, target.by.user_id)
    return engine.pool.writing(target.workspace_id)


async def _next(batches: Iterator[list[Line]]) -> list[Line] | None:
    """The next batch, read and unpacked beside the event loop: others are being served on it."""
    return await asyncio.to_thread(next, batches, None)


class _Undone(Exception):
    """A dry run is over."""


def _batches(
    lines: Iterable[Line | Refusal], refuse: Callable[[Refusal], None]
) -> Iterator[list[Line]]:
    """Neighbours of one kind together, as many as one statement should hold."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        if isinstance(line, Refusal):
            refuse(line)
            continue
        is_full = len(batch) >= _MOST_ROWS or size + line.size > _MOST_BYTES
        if batch and (is_full or line.type != batch[0].type):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


class _Intake:
    """An import under way: what the ids of the file are called here, and what became of it."""

    def __init__(
        self, engine: Engine, target: Target, attachments: Attachments, tell: Tell
    ) -> None:
        self._engine = engine
        self._target = target
        self._attachments = attachments
        self._tell = tell
        self._users: dict[str, UserId] = {}
        self._circles: dict[str, str] = {}
        self.report = Report()

    def refuse(self, refusal: Refusal) -> None:
        self.report.refused[refusal.type] += 1
        if len(self.report.refusals) < _MOST_REMEMBERED:
            self.report.refusals.append(refusal)
        self._tell(refusal)

    async def take(self, db: Db, batch: Sequence[Line]) -> None:
        """Keep lines of one kind."""
        kind = batch[0].type
        rows: list[tuple[Line, Row]] = []
        for line in batch:
            try:
                if kind not in KINDS:
                    raise Broken("a kind that this release does not know")  # noqa: TRY301
                rows.append((line, checked(kind, line.raw)))
            except (Broken, RecursionError) as error:
                self.refuse(Refusal(line.where, kind, str(error)))
        match kind:
            case "workspace_member" | "project_member" if self._target.by:
                self.report.left_out["memberships"] += len(rows)
            case "user":
                for line, row in rows:
                    await self._take_user(db, line, row)
            case "project" | "agent":
                for line, row in rows:
                    await self._take_circle(db, kind, line, row)
            case "file" | "asset" | "document":
                for line, row in rows:
                    await self._take_attachment(db, kind, line, row)
            case _:
                await self._take_rows(db, kind, rows)

    async def _take_user(self, db: Db, line: Line, row: Row) -> None:
        """Whoever has the login here is meant; else a user is made, without a password."""
        if self._target.owner:
            self._users[row["id"]] = self._target.owner
            self.report.known["user"] += 1
            return
        found = await imports.find_login(db, row["login"])
        if found is None and (made := await self._new_user(db, row)):
            self._users[row["id"]] = made
            self.report.kept["user"] += 1
            return
        # Another import may have been first.
        found = found or await imports.find_login(db, row["login"])
        if found and found[1] == self._target.org_id:
            self._users[row["id"]] = found[0]
            self.report.known["user"] += 1
            return
        why = "somebody of another org has this login; say with `--as` whose it shall be"
        self.refuse(Refusal(line.where, "user", why))

    async def _new_user(self, db: Db, row: Row) -> UserId | None:
        """A user of the same id, or, where somebody has that, of one made of it."""
        org_id = self._target.org_id
        for user_id in (UUID(self._renamed(row["id"])), uuid5(org_id, row["id"])):
            learning_on: bool = row["learning_on"]
            if await imports.add_user(db, org_id, user_id, row["login"], learning_on=learning_on):
                return UserId(user_id)
        return None

    async def _take_circle(self, db: Db, kind: str, line: Line, row: Row) -> None:
        """A project or agent; one of the same name is the same."""
        by = self._target.by
        known = await imports.find_named(
            db, self._target.workspace_id, kind, row["name"], member=by and by.user_id
        )
        if known:
            self._circles[row["id"]] = str(known)
            self.report.known[kind] += 1
            return
        if by:
            self.refuse(Refusal(line.where, kind, f"there is no {kind} of this name for you here"))
            return
        await self._take_rows(db, kind, [(line, row)])

    async def _take_rows(self, db: Db, kind: str, rows: Sequence[tuple[Line, Row]]) -> set[str]:
        """Keep rows of a kind; the keys of those that were kept just now."""
        placed: dict[str, tuple[Line, Row]] = {}
        for line, row in rows:
            try:
                here = self._placed(kind, row)
            except Broken as error:
                self.refuse(Refusal(line.where, kind, str(error)))
                continue
            key = imports.key_of(kind, here)
            if key in placed:
                self.report.known[kind] += 1
            else:
                placed[key] = (line, here)
        if not placed:
            return set()
        workspace_id = self._target.workspace_id
        batch = [row for _, row in placed.values()]
        kept = await imports.insert(db, workspace_id, kind, batch)
        self.report.kept[kind] += len(kept.new)
        others = {key: each for key, each in placed.items() if key not in kept.new}
        if others:
            await self._explain(db, kind, others, kept.unfit)
        await self._follow(db, kind, [placed[key][1] for key in kept.new])
        return kept.new

    async def _explain(
        self, db: Db, kind: str, others: Mapping[str, tuple[Line, Row]], unfit: set[str]
    ) -> None:
        """Tell apart what was there already, what hangs on nothing, what clashes or is too much."""
        known = await imports.known(
            db, self._target.workspace_id, kind, [row for _, row in others.values()]
        )
        self.report.known[kind] += len(known)
        for key, (line, row) in others.items():
            if key in unfit:
                why = "a value of it is more than the database takes"
                self.refuse(Refusal(line.where, kind, why))
            elif key not in known:
                self.refuse(Refusal(line.where, kind, await self._why(db, kind, row)))

    async def _why(self, db: Db, kind: str, row: Row) -> str:
        for name, parent in _PARENTS.get(kind, {}).items():
            if row[name] is not None and not await imports.known(
                db, self._target.workspace_id, parent, [{"id": row[name]}]
            ):
                return f"its {parent} (`{name}`) is neither here nor in a line before it"
        return "something else here has its place, its code or its label"

    def _placed(self, kind: str, row: Row) -> Row:
        """The row under the ids it has here, with what the file does not say."""
        here = {
            name: self._renamed(value) if name in REFERENCES and value else value
            for name, value in row.items()
        }
        if "code" in here and self._target.new_ids:
            here["code"] = code_of(here["id"])
        if kind in {"message", "turn"}:
            here["user_id"] = self._poster(here["user_id"])
        elif here.get("user_id") or ("user_id" in here and self._target.by):
            here["user_id"] = str(self._user(here["user_id"]))
        if kind == "thread" and here["label"] and not self._may_label(here):
            here["label"] = None
            self.report.left_out["labels"] += 1
        for name in ("project_id", "agent_id"):
            if here.get(name):
                here[name] = self._circle(here[name])
        if kind == "memory":
            here["org_id"] = str(self._target.org_id)
            here["content_digest"] = "\\x" + content_digest(here["content"]).hex()
            here["kind"] = here["kind"] or kind_of(here["category"])
        if kind == "thread" and self._target.is_to_segment:
            here["segment_due_at"] = self._engine.now().isoformat()
        if kind in {"file", "asset", "document"}:
            here["digest"] = "\\x" + here["digest"]
        return here

    def _may_label(self, thread: Row) -> bool:
        """Whether a thread keeps what another system calls it.

        In a project it would take the label from everybody who is not in that, and whether one is
        taken is not for those to know who bring something themselves.
        """
        return thread["project_id"] is None and self._target.by is None

    def _renamed(self, old: str) -> str:
        """The id here. Made of the old one, so that a second run finds what the first kept."""
        target = self._target
        if target.by:
            return str(uuid5(target.workspace_id, f"{target.by.user_id} {old}"))
        return str(uuid5(target.workspace_id, old)) if target.new_ids else old

    def _user(self, old: str | None) -> UserId:
        user_id = self._target.owner or self._users.get(old or "")
        if user_id is None:
            raise Broken("`user_id` is nobody that a line before it brings")
        return user_id

    def _poster(self, old: str | None) -> str | None:
        """Who said it, as far as the file tells; what was said is kept all the same."""
        found = self._target.owner or self._users.get(old or "")
        return str(found) if found else None

    def _circle(self, old: str) -> str:
        found = self._circles.get(old)
        if found is None and self._target.by:
            raise Broken("of a project or an agent that is not yours here")
        return found or self._renamed(old)

    async def _follow(self, db: Db, kind: str, kept: Sequence[Row]) -> None:
        """What follows from rows that are new: words, counters, and work for later."""
        workspace_id, now = self._target.workspace_id, self._engine.now()
        if not kept:
            return
        if kind == "memory":
            alive = [row for row in kept if row["deleted_at"] is None]
            await words.insert_all(
                db, workspace_id, {MemoryId(UUID(row["id"])): terms(_indexed(row)) for row in alive}
            )
            if any(row["wants_vector"] for row in alive):
                await jobs.enqueue(db, workspace_id, [spaces.TEND], now)
        if kind in {"message", "turn"}:
            is_due = kind == "message" and self._target.is_to_segment
            ids = [row["thread_id"] for row in kept]
            await imports.recount(db, workspace_id, ids, is_due=is_due, now=now)
        if kind == "message" and self._target.is_to_learn:
            await self._learn(db, kept)
        if kind == "document":
            await jobs.enqueue(db, workspace_id, [READ], now)
        is_open = kind == "thread" and any(row["segment_due_at"] for row in kept)
        if is_open or (kind == "message" and self._target.is_to_segment):
            await jobs.enqueue(db, workspace_id, [NewJob(SEGMENT)], now)

    async def _learn(self, db: Db, kept: Sequence[Row]) -> None:
        """Queue what the user said in messages that are new; each is learnt from once."""
        target, now = self._target, self._engine.now()
        assert target.owner
        owner = Caller(target.org_id, target.owner, target.workspace_id, frozenset(Right))
        async with together(db):
            for row in kept:
                if row["role"] == "user" and row["content"].strip():
                    said = Said(
                        row["content"],
                        source="import",
                        said_at=datetime.fromisoformat(row["created_at"]),
                        thread_id=ThreadId(UUID(row["thread_id"])),
                        key=f"import:{row['id']}",
                    )
                    await lessons.add(db, target.workspace_id, lesson_of(owner, said), now)
        await jobs.enqueue(db, target.workspace_id, [DISTIL], now)

    async def _take_attachment(self, db: Db, kind: str, line: Line, row: Row) -> None:
        """Keep something that has bytes with them, whole or not at all."""
        try:
            async with savepoint(db):
                kept = await self._take_rows(db, kind, [(line, row)])
                if kept:
                    await self._take_bytes(db, kind, self._renamed(row["id"]), row)
        except Broken as error:
            self.report.kept[kind] -= 1
            self.refuse(Refusal(line.where, kind, str(error)))

    async def _take_bytes(self, db: Db, kind: str, thing_id: str, row: Row) -> None:
        pieces = self._attachments.pieces(row["digest"], row["size"])
        if pieces is None:
            raise Broken("its bytes are not in the export")

        async def brought() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        async def put(number: int, data: bytes) -> None:
            await imports.put_piece(db, self._target.workspace_id, kind, thing_id, number, data)

        taken = await take_in_pieces(brought(), put, most_bytes=row["size"] + 1)
        if taken.size != row["size"] or taken.digest.hex() != row["digest"]:
            raise Broken("its bytes in the export are not the ones it names")


def _indexed(row: Row) -> str:
    return text_to_index(row["content"], row["summary"], row["key"], row["category"], row["tags"])


def code_of(thing_id: str) -> str:
    """A public code made of an id: for the same id always the same."""
    return code_from(sha256(thing_id.encode()).digest())
