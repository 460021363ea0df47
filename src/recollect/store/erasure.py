"""Erasing: which rows are somebody's, in which order they go, and the receipts of that.

Every statement takes its values from one `Span`. `STEPS` and `UNTOUCHED` together name every table
there is; a test fails for one that is in neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from recollect.domain import AgentId, OrgId, ProjectId, UserId, WorkspaceId
from recollect.store.links import CLOSED_BY, INHERIT, take_turn
from recollect.store.pool import Db
from recollect.store.words import hold_tally


@dataclass(frozen=True, slots=True)
class Span:
    """What is to go from one workspace; None leaves a side out."""

    workspace_id: WorkspaceId
    user_id: UserId | None = None
    # Who keeps what the house made in the user's name of other people's conversations.
    heir_id: UserId | None = None
    subject: str | None = None
    key: str | None = None
    # Only that user's memories of the key.
    owner_id: UserId | None = None
    # Threads, memories, messages, turns and documents by id.
    named_ids: Sequence[UUID] = ()
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None
    # Found on the way.
    key_ids: Sequence[UUID] = ()
    thread_ids: Sequence[UUID] = ()
    thread_names: Sequence[str] = ()
    message_ids: Sequence[UUID] = ()
    target_ids: Sequence[UUID] = ()
    learnt_ids: Sequence[UUID] = ()
    document_ids: Sequence[UUID] = ()
    memory_ids: Sequence[UUID] = ()
    codes: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """Whether a conversation goes with all that anybody remembered of it."""
        return self.user_id is None and self.subject is None

    @property
    def ids(self) -> list[UUID]:
        """Every id that no row may have afterwards."""
        own = [self.user_id, self.project_id, self.agent_id]
        found = [each for each in own if each] + [*self.thread_ids, *self.message_ids]
        return [*found, *self.target_ids, *self.memory_ids, *self.document_ids]


def _values(span: Span) -> dict[str, Any]:
    return {
        "workspace_id": span.workspace_id,
        "user_id": span.user_id,
        "heir_id": span.heir_id,
        "subject": span.subject,
        "key": span.key,
        "owner_id": span.owner_id,
        "named_ids": list(span.named_ids),
        "project_id": span.project_id,
        "agent_id": span.agent_id,
        "is_whole": span.is_whole,
        "key_ids": list(span.key_ids),
        "thread_ids": list(span.thread_ids),
        "thread_names": list(span.thread_names),
        "message_ids": list(span.message_ids),
        "target_ids": list(span.target_ids),
        "learnt_ids": list(span.learnt_ids),
        "document_ids": list(span.document_ids),
        "memory_ids": list(span.memory_ids),
        "codes": list(span.codes),
    }


_HOLD_USER = "SELECT id FROM app_user WHERE id = %(id)s FOR UPDATE"


async def hold_user(db: Db, user_id: UserId) -> bool:
    """Let no transaction of this user's begin until ours ends, and wait for those under way."""
    return await (await db.execute(_HOLD_USER, {"id": user_id})).fetchone() is not None


_HEIR = """
    SELECT heir.id
    FROM app_user heir
    JOIN app_user gone ON gone.id = %(user_id)s AND gone.org_id = heir.org_id
    WHERE heir.id <> gone.id AND heir.archived_at IS NULL
    ORDER BY heir.is_admin DESC, heir.created_at, heir.id
    LIMIT 1
"""
_KEY_IDS = "SELECT id FROM api_key WHERE user_id = %(user_id)s"


async def heir_of(db: Db, user_id: UserId) -> UserId | None:
    """Who in the org takes the place of a user that goes; None when nobody is left."""
    row = await (await db.execute(_HEIR, {"user_id": user_id})).fetchone()
    return UserId(row[0]) if row else None


async def key_ids_of(db: Db, user_id: UserId) -> list[UUID]:
    """The keys of a user, revoked ones too."""
    return await _ids(db, _KEY_IDS, {"user_id": user_id})


# Looking first. Threads are locked before memories, as everybody does.
_THREADS = """
    SELECT t.id, t.code, t.label
    FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.id = ANY(%(named_ids)s) OR t.user_id = %(user_id)s OR t.subject = %(subject)s
             OR t.project_id = %(project_id)s OR t.agent_id = %(agent_id)s)
    FOR UPDATE
"""
_MESSAGES = """
    SELECT s.id FROM message s
    WHERE s.workspace_id = %(workspace_id)s
        AND (s.thread_id = ANY(%(thread_ids)s) OR s.author = %(subject)s
             OR s.user_id = %(user_id)s OR s.id = ANY(%(named_ids)s))
"""
_TURNS = """
    SELECT id FROM turn
    WHERE workspace_id = %(workspace_id)s
        AND (thread_id = ANY(%(thread_ids)s) OR user_id = %(user_id)s OR id = ANY(%(named_ids)s))
"""
# Whoever keeps a candidate holds it meanwhile: once it is deleted, all that came of it is seen.
_CANDIDATES = """
    DELETE FROM candidate c
    USING lesson l
    WHERE c.workspace_id = %(workspace_id)s AND l.workspace_id = %(workspace_id)s
        AND l.id = c.lesson_id
        AND (l.user_id = %(user_id)s OR l.subject = %(subject)s
             OR l.thread_id = ANY(%(thread_ids)s))
    RETURNING c.memory_id, c.quote
"""
# A candidate may have found the memory of somebody else who said the same: it stays. Its own one
# has its quote.
_LEARNT = """
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s) AND m.quote = ANY(%(quotes)s)
        AND m.origin <> 'user'
"""
# What the house wrote in somebody's name about other people's conversations is not theirs.
_MEMORIES = """
    SELECT m.id, m.code FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND (
        (m.user_id = %(user_id)s AND NOT EXISTS (
            SELECT FROM segment s
            WHERE s.workspace_id = %(workspace_id)s AND s.memory_id = m.id AND s.is_cut
                AND s.thread_id <> ALL(%(thread_ids)s)))
        OR m.subject = %(subject)s
        OR (m.key = %(key)s AND (%(owner_id)s::uuid IS NULL OR m.user_id = %(owner_id)s))
        OR (m.scope = 'project' AND m.project_id = %(project_id)s)
        OR (m.scope = 'agent' AND m.agent_id = %(agent_id)s)
        OR (m.thread_id = ANY(%(thread_ids)s)
            AND (%(is_whole)s OR m.origin <> 'user' OR m.scope = 'thread'))
        OR m.id = ANY(%(learnt_ids)s) OR m.id = ANY(%(named_ids)s)
        OR m.id IN (
            SELECT l.memory_id FROM memory_message l
            WHERE l.workspace_id = %(workspace_id)s AND l.message_id = ANY(%(message_ids)s)))
    FOR UPDATE OF m
"""
_DOCUMENTS = """
    SELECT d.id FROM document d
    WHERE d.workspace_id = %(workspace_id)s
        AND (d.user_id = %(user_id)s OR d.project_id = %(project_id)s OR d.id = ANY(%(named_ids)s)
             OR (d.thread_id = ANY(%(thread_ids)s) AND (%(is_whole)s OR d.kind = 'artifact')))
    FOR UPDATE
"""


async def look(db: Db, span: Span) -> tuple[Span, int]:
    """Lock and list what goes; candidates, which must go first, have gone. Also how many."""
    rows = await (await db.execute(_THREADS, _values(span))).fetchall()
    span = replace(
        span,
        thread_ids=[row[0] for row in rows],
        thread_names=[name for row in rows for name in (str(row[0]), *row[1:]) if name],
        codes=[row[1] for row in rows],
    )
    messages = await _ids(db, _MESSAGES, _values(span))
    turns = await _ids(db, _TURNS, _values(span))
    span = replace(span, message_ids=messages, target_ids=turns)
    made = await (await db.execute(_CANDIDATES, _values(span))).fetchall()
    kept = {
        "workspace_id": span.workspace_id,
        "ids": [row[0] for row in made if row[0]],
        "quotes": [row[1] for row in made],
    }
    span = replace(span, learnt_ids=await _ids(db, _LEARNT, kept))
    await take_turn(db, span.workspace_id)
    await hold_tally(db, span.workspace_id)
    found = await (await db.execute(_MEMORIES, _values(span))).fetchall()
    span = replace(
        span,
        document_ids=await _ids(db, _DOCUMENTS, _values(span)),
        memory_ids=[row[0] for row in found],
        codes=[*span.codes, *(row[1] for row in found)],
    )
    return span, len(made)


_LESSONS = """
    DELETE FROM lesson
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR subject = %(subject)s OR thread_id = ANY(%(thread_ids)s))
"""
# Conversations with models, of the person, of the thread, or that were shown what goes.
_RESPONSES = """
    DELETE FROM response
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR subject = %(subject)s
             OR conversation = ANY(%(thread_names)s)
             OR EXISTS (
                SELECT FROM unnest(%(codes)s::text[]) AS gone (code)
                WHERE strpos(input::text || messages::text || answer::text, left(code, 12)) > 0))
"""
_HIDDEN_CALLS = """
    DELETE FROM hidden_call
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR EXISTS (
            SELECT FROM unnest(%(codes)s::text[]) AS gone (code)
            WHERE strpos(calls::text || results::text, left(code, 12)) > 0))
"""
_INJECTIONS = """
    DELETE FROM injection
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR memory_ids && %(memory_ids)s::uuid[])
"""
_OWN_ANSWERS = """
    DELETE FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND key_id = ANY(%(key_ids)s)
"""
# Whatever answers were kept for others may show it, also in a model's words. That the requests were
# carried out stays known. One that is under way finds its claim gone and keeps no answer.
_ANSWERS = """
    UPDATE idempotency
    SET answer = NULL, status = NULL, media_type = NULL,
        locked_until = locked_until + interval '1 microsecond'
    WHERE workspace_id = %(workspace_id)s
"""
_SOURCES = """
    DELETE FROM memory_source
    WHERE workspace_id = %(workspace_id)s
        AND (memory_id = ANY(%(memory_ids)s) OR target_id = ANY(%(thread_ids)s)
             OR target_id = ANY(%(message_ids)s) OR target_id = ANY(%(target_ids)s))
"""
_ASSOCIATIONS = """
    DELETE FROM association
    WHERE workspace_id = %(workspace_id)s
        AND (source_id = ANY(%(memory_ids)s) OR target_id = ANY(%(memory_ids)s))
"""
_VECTORS = """
    DELETE FROM memory_vector
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_WORDS = """
    DELETE FROM memory_word w
    USING (
        SELECT i.memory_id, i.place, unnest(i.terms) AS term
        FROM memory_terms i
        WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s)
    ) AS indexed
    WHERE w.workspace_id = %(workspace_id)s AND w.term = indexed.term
        AND w.place = indexed.place AND w.memory_id = indexed.memory_id
"""
_COMMON_WORDS = """
    DELETE FROM common_word c
    WHERE c.workspace_id = %(workspace_id)s
        AND c.term IN (
            SELECT unnest(i.terms) FROM memory_terms i
            WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s))
        AND NOT EXISTS (
            SELECT FROM memory_word w
            WHERE w.workspace_id = %(workspace_id)s AND w.term = c.term AND w.place = c.place)
"""
_TALLY = """
    INSERT INTO word_tally (workspace_id, place, documents, length)
    SELECT %(workspace_id)s, i.place, -count(*), -sum(i.length)
    FROM memory_terms i
    WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s)
    GROUP BY i.place
"""
# What is counted of a place that goes, with its name.
_OF_PLACES = """
    WHERE workspace_id = %(workspace_id)s AND (
        place IN (%(user_id)s, %(project_id)s, %(agent_id)s) OR place = ANY(%(thread_ids)s))
"""
_COMMON_OF_PLACES = f"DELETE FROM common_word {_OF_PLACES}"
_TALLY_OF_PLACES = f"DELETE FROM word_tally {_OF_PLACES}"
_TERMS = """
    DELETE FROM memory_terms
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_ASSET_PIECES = """
    DELETE FROM asset_piece p
    USING asset a
    WHERE p.workspace_id = %(workspace_id)s AND a.workspace_id = %(workspace_id)s
        AND a.id = p.asset_id AND a.memory_id = ANY(%(memory_ids)s)
"""
_ASSETS = """
    DELETE FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_MADE_OF = """
    DELETE FROM memory_message
    WHERE workspace_id = %(workspace_id)s
        AND (memory_id = ANY(%(memory_ids)s) OR message_id = ANY(%(message_ids)s))
"""
_SEGMENTS = """
    DELETE FROM segment
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_TEXTS = """
    DELETE FROM memory_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_ERASE_MEMORIES = """
    DELETE FROM memory
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(memory_ids)s)
"""
# What it had replaced is as if it had never been said: replaced by another, or current.
_REPLACED = f"""
    UPDATE memory
    SET superseded_by = said.by, valid_until = said.at
    FROM (
        SELECT t.id, first.source_id AS by, first.created_at AS at
        FROM memory t
        LEFT JOIN LATERAL ({CLOSED_BY}) AS first ON true
        WHERE t.workspace_id = %(workspace_id)s AND t.superseded_by = ANY(%(memory_ids)s)
    ) AS said
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = said.id
"""
# What others keep, and that pointed at what is gone.
_LET_GO = """
    UPDATE memory
    SET thread_id = CASE WHEN thread_id = ANY(%(thread_ids)s) THEN NULL ELSE thread_id END,
        project_id = CASE WHEN project_id = %(project_id)s THEN NULL ELSE project_id END,
        agent_id = CASE WHEN agent_id = %(agent_id)s THEN NULL ELSE agent_id END,
        user_id = CASE WHEN user_id = %(user_id)s THEN %(heir_id)s ELSE user_id END
    WHERE workspace_id = %(workspace_id)s
        AND (thread_id = ANY(%(thread_ids)s) OR project_id = %(project_id)s
             OR agent_id = %(agent_id)s OR user_id = %(user_id)s)
"""
_CHUNK_WORDS = """
    DELETE FROM chunk_word w
    USING (
        SELECT c.id, unnest(c.terms) AS term
        FROM chunk c
        WHERE c.workspace_id = %(workspace_id)s AND c.document_id = ANY(%(document_ids)s)
    ) AS indexed
    WHERE w.workspace_id = %(workspace_id)s AND w.term = indexed.term AND w.chunk_id = indexed.id
"""
_CHUNK_VECTORS = """
    DELETE FROM chunk_vector
    WHERE workspace_id = %(workspace_id)s AND document_id = ANY(%(document_ids)s)
"""
_CHUNKS = """
    DELETE FROM chunk
    WHERE workspace_id = %(workspace_id)s AND document_id = ANY(%(document_ids)s)
"""
_DOCUMENT_PIECES = """
    DELETE FROM document_piece
    WHERE workspace_id = %(workspace_id)s AND document_id = ANY(%(document_ids)s)
"""
_ERASE_DOCUMENTS = """
    DELETE FROM document
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(document_ids)s)
"""
_LET_GO_OF_DOCUMENTS = """
    UPDATE document SET thread_id = NULL
    WHERE workspace_id = %(workspace_id)s AND thread_id = ANY(%(thread_ids)s)
"""
_FILE_PIECES = """
    DELETE FROM message_file_piece p
    USING message_file f
    WHERE p.workspace_id = %(workspace_id)s AND f.workspace_id = %(workspace_id)s
        AND f.id = p.file_id AND f.message_id = ANY(%(message_ids)s)
"""
_FILES = """
    DELETE FROM message_file
    WHERE workspace_id = %(workspace_id)s AND message_id = ANY(%(message_ids)s)
"""
_COUNTS = """
    UPDATE thread t
    SET message_count = t.message_count - said.count
    FROM (
        SELECT s.thread_id, count(*) AS count FROM message s
        WHERE s.workspace_id = %(workspace_id)s AND s.id = ANY(%(message_ids)s)
        GROUP BY s.thread_id
    ) AS said
    WHERE t.workspace_id = %(workspace_id)s AND t.id = said.thread_id
"""
_ERASE_MESSAGES = """
    DELETE FROM message
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(message_ids)s)
"""
_ERASE_TURNS = """
    DELETE FROM turn WHERE workspace_id = %(workspace_id)s AND id = ANY(%(target_ids)s)
"""
_STATES = """
    DELETE FROM thread_state
    WHERE workspace_id = %(workspace_id)s AND thread_id = ANY(%(thread_ids)s)
"""
_VECTOR_INDEXES = """
    DELETE FROM vector_index
    WHERE workspace_id = %(workspace_id)s AND thread_id = ANY(%(thread_ids)s)
"""
_ERASE_THREADS = """
    DELETE FROM thread WHERE workspace_id = %(workspace_id)s AND id = ANY(%(thread_ids)s)
"""
_INSIGHTS = """
    DELETE FROM insight WHERE workspace_id = %(workspace_id)s AND user_id = %(user_id)s
"""
# The audit keeps that something was done, when, to which address, and a hash; not by or about whom,
# and not why.
_EVENTS = """
    UPDATE event
    SET reason = NULL, subject = NULL,
        user_id = CASE WHEN user_id = %(user_id)s THEN NULL ELSE user_id END,
        actor = CASE WHEN user_id = %(user_id)s THEN 'erased' ELSE actor END
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR subject = %(subject)s
             OR ((reason IS NOT NULL OR subject IS NOT NULL)
                 AND (thread_code = ANY(%(codes)s) OR details ->> 'memory' = ANY(%(codes)s))))
"""
_PROJECT_MEMBERS = """
    DELETE FROM project_member
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR project_id = %(project_id)s)
"""
_AGENTS = """
    DELETE FROM agent
    WHERE workspace_id = %(workspace_id)s
        AND (id = %(agent_id)s OR project_id = %(project_id)s)
"""
_PROJECTS = """
    DELETE FROM project WHERE workspace_id = %(workspace_id)s AND id = %(project_id)s
"""
_WORKSPACE_MEMBERS = """
    DELETE FROM workspace_member
    WHERE workspace_id = %(workspace_id)s AND user_id = %(user_id)s
"""

# Table and statement, in an order in which nothing refers to what is gone. Tables whose rows hang
# on others by ON DELETE CASCADE have a step of their own all the same: the receipt counts them.
STEPS: Sequence[tuple[str, LiteralString]] = (
    ("lesson", _LESSONS),
    ("response", _RESPONSES),
    ("hidden_call", _HIDDEN_CALLS),
    ("injection", _INJECTIONS),
    ("idempotency", _OWN_ANSWERS),
    ("idempotency", _ANSWERS),
    ("memory_source", _SOURCES),
    ("association passed on", INHERIT),
    ("association", _ASSOCIATIONS),
    ("memory_vector", _VECTORS),
    ("memory_word", _WORDS),
    ("common_word", _COMMON_WORDS),
    ("common_word", _COMMON_OF_PLACES),
    ("word_tally", _TALLY),
    ("word_tally", _TALLY_OF_PLACES),
    ("memory_terms", _TERMS),
    ("asset_piece", _ASSET_PIECES),
    ("asset", _ASSETS),
    ("memory_message", _MADE_OF),
    ("segment", _SEGMENTS),
    ("memory_text", _TEXTS),
    ("memory", _ERASE_MEMORIES),
    ("memory replaced", _REPLACED),
    ("memory let go", _LET_GO),
    ("chunk_word", _CHUNK_WORDS),
    ("chunk_vector", _CHUNK_VECTORS),
    ("chunk", _CHUNKS),
    ("document_piece", _DOCUMENT_PIECES),
    ("document", _ERASE_DOCUMENTS),
    ("document let go", _LET_GO_OF_DOCUMENTS),
    ("message_file_piece", _FILE_PIECES),
    ("message_file", _FILES),
    ("thread counted anew", _COUNTS),
    ("message", _ERASE_MESSAGES),
    ("turn", _ERASE_TURNS),
    ("thread_state", _STATES),
    ("vector_index", _VECTOR_INDEXES),
    ("thread", _ERASE_THREADS),
    ("insight", _INSIGHTS),
    ("event", _EVENTS),
    ("project_member", _PROJECT_MEMBERS),
    ("agent", _AGENTS),
    ("project", _PROJECTS),
    ("workspace_member", _WORKSPACE_MEMBERS),
)

# Tables that erasing a person, a thread or a key leaves alone, and why.
UNTOUCHED: Mapping[str, str] = {
    "generation": "which model a workspace has; nobody's words",
    "word_census": "one number a workspace",
    "model_call": "what models were asked for and what it cost, without who or what",
    "job": "work to do in a workspace; it names nobody",
    "erasure": "the receipts themselves: hashes and numbers",
    "migration": "which migrations ran",
}
# Tables of a user's account, which go when the user does, and of an org.
ACCOUNTS = ("sign_in", "sign_in_try", "api_key", "app_user", "workspace", "org")
# Tables that are emptied by a step or by `_CANDIDATES`.
STEPPED = frozenset({"candidate", *(table for table, _ in STEPS if " " not in table)})


async def walk(db: Db, span: Span) -> dict[str, int]:
    """Remove what `look` has found, table by table; how many rows of each."""
    values = _values(span)
    counts: dict[str, int] = {}
    for table, statement in STEPS:
        counts[table] = counts.get(table, 0) + (await db.execute(statement, values)).rowcount
    return counts


_ERASE_SIGN_INS = "DELETE FROM sign_in WHERE user_id = %(user_id)s"
# By the hash of their login, as `engine.signin` counts them; those by address name nobody.
_ERASE_TRIES = """
    DELETE FROM sign_in_try
    WHERE subject IN (
        SELECT sha256(convert_to('account ' || login, 'UTF8')) FROM app_user
        WHERE id = %(user_id)s)
"""
_ERASE_KEYS = "DELETE FROM api_key WHERE user_id = %(user_id)s"
_ERASE_USER = "DELETE FROM app_user WHERE id = %(user_id)s"


async def erase_account(db: Db, user_id: UserId) -> dict[str, int]:
    """Remove a user of whom nothing is left, and their keys."""
    values = {"user_id": user_id}
    return {
        "sign_in": (await db.execute(_ERASE_SIGN_INS, values)).rowcount,
        "sign_in_try": (await db.execute(_ERASE_TRIES, values)).rowcount,
        "api_key": (await db.execute(_ERASE_KEYS, values)).rowcount,
        "app_user": (await db.execute(_ERASE_USER, values)).rowcount,
    }


# A workspace as a whole: every table that has rows of it, in an order that foreign keys allow.
_EMPTY = sql.SQL("DELETE FROM {table} WHERE workspace_id = %(workspace_id)s")
# Children before their parents; those of `STEPS` first, as there.
WHOLE = tuple(
    dict.fromkeys(
        [
            "candidate",
            *(table for table, _ in STEPS if " " not in table),
            "generation",
            "word_census",
            "model_call",
            "job",
            "api_key",
        ]
    )
)
_HOLD_WORKSPACE = "SELECT id FROM workspace WHERE id = %(workspace_id)s FOR UPDATE"
_ERASE_WORKSPACE = "DELETE FROM workspace WHERE id = %(workspace_id)s"


async def empty_workspace(db: Db, workspace_id: WorkspaceId) -> dict[str, int]:
    """Remove a workspace with everything in it; how many rows of each table."""
    values = {"workspace_id": workspace_id}
    # Whoever writes there holds its row by foreign key.
    await db.execute(_HOLD_WORKSPACE, values)
    counts: dict[str, int] = {}
    for table in WHOLE:
        statement = _EMPTY.format(table=sql.Identifier(table))
        counts[table] = (await db.execute(statement, values)).rowcount
    counts["workspace"] = (await db.execute(_ERASE_WORKSPACE, values)).rowcount
    return counts


_HOLD_USERS = "SELECT id FROM app_user WHERE org_id = %(org_id)s FOR UPDATE"
_ERASE_ORG_KEYS = "DELETE FROM api_key WHERE org_id = %(org_id)s"
_ERASE_USERS = "DELETE FROM app_user WHERE org_id = %(org_id)s"
_ERASE_ORG = "DELETE FROM org WHERE id = %(org_id)s"


async def hold_users(db: Db, org_id: OrgId) -> list[UUID]:
    """As `hold_user`, for everybody of an org."""
    return await _ids(db, _HOLD_USERS, {"org_id": org_id})


async def erase_org(db: Db, org_id: OrgId) -> dict[str, int]:
    """Remove an org whose workspaces are gone."""
    values = {"org_id": org_id}
    return {
        "api_key": (await db.execute(_ERASE_ORG_KEYS, values)).rowcount,
        "app_user": (await db.execute(_ERASE_USERS, values)).rowcount,
        "org": (await db.execute(_ERASE_ORG, values)).rowcount,
    }


# Receipts.


@dataclass(frozen=True, slots=True)
class Kept:
    """A receipt as it was given."""

    id: UUID
    number: int
    org_id: OrgId
    receipt: str
    hash: str
    created_at: datetime


# One chain: erasures get their numbers one after the other.
_CHAIN = "SELECT pg_advisory_xact_lock(7245018846215)"
_COLUMNS = "id, number, org_id, receipt, hash, created_at"
_LAST = f"SELECT {_COLUMNS} FROM erasure ORDER BY number DESC LIMIT 1"
_KEEP = """
    INSERT INTO erasure (id, number, org_id, receipt, hash, created_at)
    VALUES (%(id)s, %(number)s, %(org_id)s, %(receipt)s, %(hash)s, %(created_at)s)
"""
_FIND = f"SELECT {_COLUMNS} FROM erasure WHERE id = %(id)s"
_RECEIPTS = f"SELECT {_COLUMNS} FROM erasure ORDER BY number"
_OF_ORG = f"SELECT {_COLUMNS} FROM erasure WHERE org_id = %(org_id)s ORDER BY number"


async def last_receipt(db: Db) -> Kept | None:
    """The end of the chain, held until the transaction ends."""
    await db.execute(_CHAIN)
    return next(iter(await _fetch(db, _LAST, {})), None)


async def keep_receipt(db: Db, kept: Kept) -> None:
    """Add to the chain."""
    values = {
        "id": kept.id,
        "number": kept.number,
        "org_id": kept.org_id,
        "receipt": kept.receipt,
        "hash": kept.hash,
        "created_at": kept.created_at,
    }
    await db.execute(_KEEP, values)


async def find_receipt(db: Db, receipt_id: UUID) -> Kept | None:
    """A receipt by its id."""
    return next(iter(await _fetch(db, _FIND, {"id": receipt_id})), None)


async def receipts(db: Db, org_id: OrgId | None = None) -> list[Kept]:
    """Every receipt, or an org's, oldest first."""
    return await _fetch(db, _OF_ORG if org_id else _RECEIPTS, {"org_id": org_id})


# Looking for what should be gone, by the hashes of a receipt: in every column of every table that
# can hold an id, whichever tables there are by then.
_COLUMNS_OF_IDS = """
    SELECT c.relname, a.attname, a.atttypid = 'uuid[]'::regtype
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'erasure'
        AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'memory'::regclass)
        AND a.attnum > 0 AND NOT a.attisdropped
        AND a.atttypid IN ('uuid'::regtype, 'uuid[]'::regtype)
    ORDER BY c.relname, a.attnum
"""
# everywhere: what was erased shall be nowhere.
_LEFT = sql.SQL("""
    SELECT count(*) FROM {table}
    WHERE substr(sha256(%(salt)s || uuid_send({column})), 1, 16) = ANY(%(digests)s)
""")
# everywhere: as above, for lists of ids.
_LEFT_IN_LISTS = sql.SQL("""
    SELECT count(*) FROM {table}
    CROSS JOIN LATERAL unnest({column}) AS listed (id)
    WHERE substr(sha256(%(salt)s || uuid_send(listed.id)), 1, 16) = ANY(%(digests)s)
""")


async def left_by_id(db: Db, salt: bytes, digests: Sequence[bytes]) -> dict[str, int]:
    """Where an id with one of these digests still stands: column and number of rows."""
    values = {"salt": salt, "digests": list(digests)}
    found: dict[str, int] = {}
    for table, column, is_list in await (await db.execute(_COLUMNS_OF_IDS)).fetchall():
        statement = (_LEFT_IN_LISTS if is_list else _LEFT).format(
            table=sql.Identifier(table), column=sql.Identifier(column)
        )
        row = await (await db.execute(statement, values)).fetchone()
        if row and row[0]:
            found[f"{table}.{column}"] = row[0]
    return found


# A key or a name may be used again: only what is older than the erasure should be gone.
# everywhere: the receipt does not say in which workspace it was.
_LEFT_KEYS = """
    SELECT count(*) FROM memory m
    WHERE m.key IS NOT NULL AND m.created_at <= %(at)s AND m.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(m.workspace_id::text || '/' || m.key || CASE
            WHEN %(is_owned)s THEN '/' || m.user_id::text ELSE '' END, 'UTF8')), 1, 16) = %(target)s
"""
# everywhere: the receipt does not say in which workspace it was.
_LEFT_SUBJECTS = """
    SELECT 'memory', count(*) FROM memory m
    WHERE m.subject IS NOT NULL AND m.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            m.workspace_id::text || '/' || m.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'thread', count(*) FROM thread t
    WHERE t.subject IS NOT NULL AND t.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            t.workspace_id::text || '/' || t.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'response', count(*) FROM response r
    WHERE r.subject IS NOT NULL AND r.created_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            r.workspace_id::text || '/' || r.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'lesson', count(*) FROM lesson l
    WHERE l.subject IS NOT NULL AND l.created_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            l.workspace_id::text || '/' || l.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'event', count(*) FROM event e
    WHERE e.subject IS NOT NULL AND e.at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            e.workspace_id::text || '/' || e.subject, 'UTF8')), 1, 16) = %(target)s
"""


async def left_of_key(
    db: Db, salt: bytes, target: bytes, at: datetime, *, is_owned: bool
) -> dict[str, int]:
    """Memories of the erased key that are older than the erasure."""
    values = {"salt": salt, "target": target, "at": at, "is_owned": is_owned}
    row = await (await db.execute(_LEFT_KEYS, values)).fetchone()
    return {"memory.key": row[0]} if row and row[0] else {}


async def left_of_subject(db: Db, salt: bytes, target: bytes, at: datetime) -> dict[str, int]:
    """Rows about the erased person that are older than the erasure."""
    rows = await (
        await db.execute(_LEFT_SUBJECTS, {"salt": salt, "target": target, "at": at})
    ).fetchall()
    return {f"{table}.subject": count for table, count in rows if count}


# everywhere: whoever restored a backup knows hashes and not where their rows are.
_PLACES = sql.SQL("""
    SELECT workspace_id, id FROM {table}
    WHERE substr(sha256(%(salt)s || uuid_send(id)), 1, 16) = ANY(%(digests)s)
""")


async def places(
    db: Db, table: str, salt: bytes, digests: Sequence[bytes]
) -> list[tuple[WorkspaceId, UUID]]:
    """Rows of a table whose ids have these digests, and their workspaces."""
    statement = _PLACES.format(table=sql.Identifier(table))
    cursor = await db.execute(statement, {"salt": salt, "digests": list(digests)})
    return [(WorkspaceId(row[0]), row[1]) for row in await cursor.fetchall()]


async def _ids(db: Db, query: LiteralString, values: dict[str, Any]) -> list[UUID]:
    return [row[0] for row in await (await db.execute(query, values)).fetchall()]


async def _fetch(db: Db, query: LiteralString, values: dict[str, Any]) -> list[Kept]:
    async with db.cursor(row_factory=class_row(Kept)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
