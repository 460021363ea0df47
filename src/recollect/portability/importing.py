"""Import the lines of an export, or lines that an importer made from another system's file.

Every batch is its own transaction, so an interrupted import can be run again: lines that were
already imported are recognised and skipped. A line that cannot be imported is reported and affects
no other.
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

from recollect.conversations.messages import SEGMENT_JOB
from recollect.core.domain import (
    NO_WORKSPACE,
    Caller,
    MemoryId,
    OrgId,
    Right,
    ThreadId,
    UserId,
    WorkspaceId,
    code_from,
)
from recollect.core.errors import Conflict, Invalid, RateLimited
from recollect.core.file_pieces import store_pieces
from recollect.db import audit_events, job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db, pipeline, savepoint
from recollect.documents.documents import READ_JOB
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.learning.inbox import DISTIL_JOB, LearningInput, inbox_item_of
from recollect.learning.queries import inbox
from recollect.memories.save import content_digest, index_text_of, kind_of
from recollect.portability.queries import exports, imports
from recollect.portability.queries.imports import Row
from recollect.portability.records import KINDS, REFERENCES, BrokenRecord, check_record

_MAX_BATCH_ROWS = 200
_MAX_BATCH_BYTES = 4 * 1024 * 1024
# The report keeps this many refusals. All are counted, and passed on as they occur.
_MAX_REFUSALS = 1_000
# When to retry while too many exports or imports run.
_RETRY_AFTER = timedelta(seconds=10)

# The kinds that a kind refers to, by field.
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
class ImportLine:
    """One record to import: its position in the source, its kind, and its fields."""

    where: str
    type: str
    raw: Mapping[str, Any]
    size: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that was not imported, and why."""

    where: str
    type: str
    why: str


class Attachments(Protocol):
    """The bytes of the assets and files of an import."""

    def pieces(self, digest: str, size: int) -> Iterator[bytes] | None:
        """Return the bytes with this digest, at most `size` of them; None when they are missing."""
        ...


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Where records are imported to, and under which ids."""

    workspace_id: WorkspaceId
    org_id: OrgId
    # This user becomes the owner of everything. None: each record keeps its own user, who is found
    # by login or created.
    owner: UserId | None = None
    # Use new ids; the same line always gets the same new id.
    new_ids: bool = False
    # The threads were never segmented: mark them for segmentation.
    is_to_segment: bool = False
    # Learn from the user's messages in them, as from any turn.
    is_to_learn: bool = False
    # The caller who imports over HTTP; None for the operator. The records become theirs, under new
    # ids derived from their user id, so that no line can refer to, collide with or reveal another
    # user's rows.
    by: Caller | None = None


@dataclass(slots=True)
class ImportReport:
    """The result of an import: how many records of each kind were imported, known or refused."""

    kept: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    # The first thousand refusals.
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    # Left out on purpose, such as an answer that was regenerated.
    left_out: Counter[str] = field(default_factory=Counter[str])


OnProgress = Callable[[ImportReport], None]
OnRefusal = Callable[[Refusal], None]


async def import_lines(
    engine: Engine,
    target: ImportTarget,
    lines: Iterable[ImportLine | Refusal],
    *,
    attachments: Attachments,
    is_dry_run: bool = False,
    on_progress: OnProgress = lambda _: None,
    on_refusal: OnRefusal = lambda _: None,
) -> ImportReport:
    """Import the lines. A dry run does everything and rolls it back at the end."""
    report = ImportReport()
    async for report in open_import(
        engine, target, lines, attachments=attachments, is_dry_run=is_dry_run, on_refusal=on_refusal
    ):
        on_progress(report)
    return report


async def open_import(
    engine: Engine,
    target: ImportTarget,
    lines: Iterable[ImportLine | Refusal],
    *,
    attachments: Attachments,
    is_dry_run: bool = False,
    on_refusal: OnRefusal = lambda _: None,
) -> AsyncGenerator[ImportReport]:
    """Import as `import_lines` does, and yield the report so far after each batch."""
    importer = _Importer(engine, target, attachments, on_refusal)
    batches = _batches(lines, importer.refuse)
    if is_dry_run:
        with suppress(_DryRunEnded):
            async with _writing(engine, target) as db:
                while batch := await _next_batch(batches):
                    await importer.import_batch(db, batch)
                    yield importer.report
                raise _DryRunEnded
        yield importer.report
        return
    while batch := await _next_batch(batches):
        async with _writing(engine, target) as db:
            await importer.import_batch(db, batch)
        yield importer.report
    async with _writing(engine, target) as db:
        await audit_events.insert_event(
            db,
            target.workspace_id,
            "data.imported",
            actor=target.by.label if target.by else "operator",
            user_id=target.by and target.by.user_id,
            details={"kept": dict(importer.report.kept)},
            at=engine.now(),
            is_private=target.by is not None,
        )
    yield importer.report


def own_target(caller: Caller, *, is_foreign: bool, is_to_learn: bool = False) -> ImportTarget:
    """Return the target for a caller's own import: their active workspace, with them as owner."""
    caller.require(Right.WRITE)
    if caller.workspace_id == NO_WORKSPACE:
        raise Invalid("No workspace is active. Name one, or use a key of one workspace.")
    return ImportTarget(
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
    """Allow one export or import per user at a time, and two in total."""
    async with engine.pool.everywhere() as db:
        if not await exports.try_lock_user(db, caller.user_id):
            raise Conflict(
                "Another of your exports or imports is running. Wait for it to finish.",
                is_temporary=True,
            )
        if not await exports.try_lock_slot(db):
            raise RateLimited(_RETRY_AFTER)
        yield


def _writing(engine: Engine, target: ImportTarget) -> AbstractAsyncContextManager[Db]:
    """Open a transaction; the importing caller cannot be erased until it ends."""
    if target.by:
        return engine.pool.writing_as(target.workspace_id, target.by.user_id)
    return engine.pool.writing(target.workspace_id)


async def _next_batch(batches: Iterator[list[ImportLine]]) -> list[ImportLine] | None:
    """Read and unpack the next batch in a thread, because the event loop serves other requests."""
    return await asyncio.to_thread(next, batches, None)


class _DryRunEnded(Exception):
    """Raised at the end of a dry run, to roll it back."""


def _batches(
    lines: Iterable[ImportLine | Refusal], refuse: Callable[[Refusal], None]
) -> Iterator[list[ImportLine]]:
    """Group consecutive lines of one kind, up to the size that one statement should have."""
    batch: list[ImportLine] = []
    size = 0
    for line in lines:
        if isinstance(line, Refusal):
            refuse(line)
            continue
        is_full = len(batch) >= _MAX_BATCH_ROWS or size + line.size > _MAX_BATCH_BYTES
        if batch and (is_full or line.type != batch[0].type):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


class _Importer:
    """A running import: the new ids of the file's users, projects and agents, and the report."""

    def __init__(
        self, engine: Engine, target: ImportTarget, attachments: Attachments, on_refusal: OnRefusal
    ) -> None:
        self._engine = engine
        self._target = target
        self._attachments = attachments
        self._on_refusal = on_refusal
        self._users: dict[str, UserId] = {}
        self._projects_and_agents: dict[str, str] = {}
        self.report = ImportReport()

    def refuse(self, refusal: Refusal) -> None:
        self.report.refused[refusal.type] += 1
        if len(self.report.refusals) < _MAX_REFUSALS:
            self.report.refusals.append(refusal)
        self._on_refusal(refusal)

    async def import_batch(self, db: Db, batch: Sequence[ImportLine]) -> None:
        """Import lines of one kind."""
        kind = batch[0].type
        rows: list[tuple[ImportLine, Row]] = []
        for line in batch:
            try:
                if kind not in KINDS:
                    raise BrokenRecord("this release does not know this kind of record")  # noqa: TRY301
                rows.append((line, check_record(kind, line.raw)))
            except (BrokenRecord, RecursionError) as error:
                self.refuse(Refusal(line.where, kind, str(error)))
        match kind:
            case "workspace_member" | "project_member" if self._target.by:
                self.report.left_out["memberships"] += len(rows)
            case "user":
                for line, row in rows:
                    await self._import_user(db, line, row)
            case "project" | "agent":
                for line, row in rows:
                    await self._import_project_or_agent(db, kind, line, row)
            case "file" | "asset" | "document":
                for line, row in rows:
                    await self._import_attachment(db, kind, line, row)
            case _:
                await self._import_rows(db, kind, rows)

    async def _import_user(self, db: Db, line: ImportLine, row: Row) -> None:
        """Map to the user with the same login; create one without a password if there is none."""
        if self._target.owner:
            self._users[row["id"]] = self._target.owner
            self.report.known["user"] += 1
            return
        found = await imports.find_login(db, row["login"])
        if found is None and (new_id := await self._add_user(db, row)):
            self._users[row["id"]] = new_id
            self.report.kept["user"] += 1
            return
        # A concurrent import may have created the user.
        found = found or await imports.find_login(db, row["login"])
        if found and found[1] == self._target.org_id:
            self._users[row["id"]] = found[0]
            self.report.known["user"] += 1
            return
        why = "a user of another org has this login; choose the owner with `--as`"
        self.refuse(Refusal(line.where, "user", why))

    async def _add_user(self, db: Db, row: Row) -> UserId | None:
        """Add a user with the same id, or with one derived from it if that id is taken."""
        org_id = self._target.org_id
        for user_id in (UUID(self._new_id(row["id"])), uuid5(org_id, row["id"])):
            learning_on: bool = row["learning_on"]
            if await imports.add_user(db, org_id, user_id, row["login"], learning_on=learning_on):
                return UserId(user_id)
        return None

    async def _import_project_or_agent(self, db: Db, kind: str, line: ImportLine, row: Row) -> None:
        """Map to the project or agent with the same name; add it if there is none."""
        by = self._target.by
        known = await imports.find_named(
            db, self._target.workspace_id, kind, row["name"], member=by and by.user_id
        )
        if known:
            self._projects_and_agents[row["id"]] = str(known)
            self.report.known[kind] += 1
            return
        if by:
            self.refuse(Refusal(line.where, kind, f"you have no {kind} with this name here"))
            return
        await self._import_rows(db, kind, [(line, row)])

    async def _import_rows(
        self, db: Db, kind: str, rows: Sequence[tuple[ImportLine, Row]]
    ) -> set[str]:
        """Import rows of a kind; return the keys of the rows that are new."""
        adapted: dict[str, tuple[ImportLine, Row]] = {}
        for line, row in rows:
            try:
                here = self._adapt(kind, row)
            except BrokenRecord as error:
                self.refuse(Refusal(line.where, kind, str(error)))
                continue
            key = imports.row_key(kind, here)
            if key in adapted:
                self.report.known[kind] += 1
            else:
                adapted[key] = (line, here)
        if not adapted:
            return set()
        workspace_id = self._target.workspace_id
        batch = [row for _, row in adapted.values()]
        inserted = await imports.insert(db, workspace_id, kind, batch)
        self.report.kept[kind] += len(inserted.new)
        others = {key: each for key, each in adapted.items() if key not in inserted.new}
        if others:
            await self._report_skipped(db, kind, others, inserted.rejected)
        await self._follow_up(db, kind, [adapted[key][1] for key in inserted.new])
        return inserted.new

    async def _report_skipped(
        self, db: Db, kind: str, others: Mapping[str, tuple[ImportLine, Row]], rejected: set[str]
    ) -> None:
        """Report why each row was skipped: known, without its parent, in conflict or rejected."""
        known = await imports.find_known(
            db, self._target.workspace_id, kind, [row for _, row in others.values()]
        )
        self.report.known[kind] += len(known)
        for key, (line, row) in others.items():
            if key in rejected:
                why = "the database rejects one of its values"
                self.refuse(Refusal(line.where, kind, why))
            elif key not in known:
                self.refuse(Refusal(line.where, kind, await self._skip_reason(db, kind, row)))

    async def _skip_reason(self, db: Db, kind: str, row: Row) -> str:
        for name, parent in _PARENTS.get(kind, {}).items():
            if row[name] is not None and not await imports.find_known(
                db, self._target.workspace_id, parent, [{"id": row[name]}]
            ):
                return f"its {parent} (`{name}`) does not exist and is not in an earlier line"
        return "another record already has its position, code or label"

    def _adapt(self, kind: str, row: Row) -> Row:
        """Return the row with its new ids and the columns that the file does not contain."""
        here = {
            name: self._new_id(value) if name in REFERENCES and value else value
            for name, value in row.items()
        }
        if "code" in here and self._target.new_ids:
            here["code"] = make_code(here["id"])
        if kind in {"message", "turn"}:
            here["user_id"] = self._author(here["user_id"])
        elif here.get("user_id") or ("user_id" in here and self._target.by):
            here["user_id"] = str(self._user(here["user_id"]))
        if kind == "thread" and here["label"] and not self._keeps_label(here):
            here["label"] = None
            self.report.left_out["labels"] += 1
        for name in ("project_id", "agent_id"):
            if here.get(name):
                here[name] = self._project_or_agent(here[name])
        if kind == "memory":
            here["org_id"] = str(self._target.org_id)
            here["content_digest"] = "\\x" + content_digest(here["content"]).hex()
            here["kind"] = here["kind"] or kind_of(here["category"])
        if kind == "thread" and self._target.is_to_segment:
            here["segment_due_at"] = self._engine.now().isoformat()
        if kind in {"file", "asset", "document"}:
            here["digest"] = "\\x" + here["digest"]
        return here

    def _keeps_label(self, thread: Row) -> bool:
        """Return whether a thread keeps its label.

        In a project it would take the label away from users outside the project. A caller who
        imports over HTTP must not learn whether a label is taken.
        """
        return thread["project_id"] is None and self._target.by is None

    def _new_id(self, old: str) -> str:
        """Return the new id, derived from the old one so that a second run finds the same rows."""
        target = self._target
        if target.by:
            return str(uuid5(target.workspace_id, f"{target.by.user_id} {old}"))
        return str(uuid5(target.workspace_id, old)) if target.new_ids else old

    def _user(self, old: str | None) -> UserId:
        user_id = self._target.owner or self._users.get(old or "")
        if user_id is None:
            raise BrokenRecord("`user_id` is not the user of an earlier line")
        return user_id

    def _author(self, old: str | None) -> str | None:
        """Return the author if the file names one; the message is imported either way."""
        found = self._target.owner or self._users.get(old or "")
        return str(found) if found else None

    def _project_or_agent(self, old: str) -> str:
        found = self._projects_and_agents.get(old)
        if found is None and self._target.by:
            raise BrokenRecord("it belongs to a project or agent that you cannot use here")
        return found or self._new_id(old)

    async def _follow_up(self, db: Db, kind: str, new_rows: Sequence[Row]) -> None:
        """Do what new rows require: keyword index, counters and jobs."""
        workspace_id, now = self._target.workspace_id, self._engine.now()
        if not new_rows:
            return
        if kind == "memory":
            alive = [row for row in new_rows if row["deleted_at"] is None]
            await postings.insert_all(
                db,
                workspace_id,
                {MemoryId(UUID(row["id"])): terms(_index_text(row)) for row in alive},
            )
            if any(row["wants_vector"] for row in alive):
                await job_queue.enqueue(db, workspace_id, [generations.EMBED_JOB], now)
        if kind in {"message", "turn"}:
            is_due = kind == "message" and self._target.is_to_segment
            ids = [row["thread_id"] for row in new_rows]
            await imports.recount(db, workspace_id, ids, is_due=is_due, now=now)
        if kind == "message" and self._target.is_to_learn:
            await self._learn(db, new_rows)
        if kind == "document":
            await job_queue.enqueue(db, workspace_id, [READ_JOB], now)
        is_due = kind == "thread" and any(row["segment_due_at"] for row in new_rows)
        if is_due or (kind == "message" and self._target.is_to_segment):
            await job_queue.enqueue(db, workspace_id, [NewJob(SEGMENT_JOB)], now)

    async def _learn(self, db: Db, new_rows: Sequence[Row]) -> None:
        """Queue the user's new messages for learning; each is learnt from once."""
        target, now = self._target, self._engine.now()
        assert target.owner
        owner = Caller(target.org_id, target.owner, target.workspace_id, frozenset(Right))
        async with pipeline(db):
            for row in new_rows:
                if row["role"] == "user" and row["content"].strip():
                    learning_input = LearningInput(
                        row["content"],
                        source="import",
                        said_at=datetime.fromisoformat(row["created_at"]),
                        thread_id=ThreadId(UUID(row["thread_id"])),
                        key=f"import:{row['id']}",
                    )
                    await inbox.add(
                        db, target.workspace_id, inbox_item_of(owner, learning_input), now
                    )
        await job_queue.enqueue(db, target.workspace_id, [DISTIL_JOB], now)

    async def _import_attachment(self, db: Db, kind: str, line: ImportLine, row: Row) -> None:
        """Import a record together with its bytes, or not at all."""
        try:
            async with savepoint(db):
                if await self._import_rows(db, kind, [(line, row)]):
                    await self._import_bytes(db, kind, self._new_id(row["id"]), row)
        except BrokenRecord as error:
            self.report.kept[kind] -= 1
            self.refuse(Refusal(line.where, kind, str(error)))

    async def _import_bytes(self, db: Db, kind: str, item_id: str, row: Row) -> None:
        pieces = self._attachments.pieces(row["digest"], row["size"])
        if pieces is None:
            raise BrokenRecord("its bytes are not in the export")

        async def stream() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        async def add(number: int, data: bytes) -> None:
            await imports.add_piece(db, self._target.workspace_id, kind, item_id, number, data)

        stored = await store_pieces(stream(), add, max_bytes=row["size"] + 1)
        if stored.size != row["size"] or stored.digest.hex() != row["digest"]:
            raise BrokenRecord("its bytes in the export do not match its size and digest")


def _index_text(row: Row) -> str:
    return index_text_of(row["content"], row["summary"], row["key"], row["category"], row["tags"])


def make_code(item_id: str) -> str:
    """Return a public code derived from an id; the same id always gives the same code."""
    return code_from(sha256(item_id.encode()).digest())
