"""The SQL of erasure: which rows belong to the target, and in which order they are deleted.

Every statement takes its parameters from one `ErasureSpan`. Every table is in `STEP_TABLES`,
`UNTOUCHED` or `ACCOUNT_TABLES`; a test fails for a table that is in none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql

from recollect.core.domain import AgentId, OrgId, ProjectId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.keywords.queries.totals import lock_totals
from recollect.memories.queries.supersession import CLOSED_BY, INHERIT, lock_supersession


@dataclass(frozen=True, slots=True)
class ErasureSpan:
    """The data to erase from one workspace; a field that is None selects nothing."""

    workspace_id: WorkspaceId
    user_id: UserId | None = None
    # The user who takes over what the server made in the erased user's name from other people's
    # conversations.
    successor_id: UserId | None = None
    subject: str | None = None
    key: str | None = None
    # Only this user's memories with the key.
    owner_id: UserId | None = None
    # Threads, memories, messages, turns and documents by id.
    named_ids: Sequence[UUID] = ()
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None
    # Filled in by `lock_rows`.
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
        """Whether threads are erased with every memory made from them, by any user."""
        return self.user_id is None and self.subject is None

    @property
    def ids(self) -> list[UUID]:
        """Every id that must not be in any row afterwards."""
        own = [self.user_id, self.project_id, self.agent_id]
        found = [each for each in own if each] + [*self.thread_ids, *self.message_ids]
        return [*found, *self.target_ids, *self.memory_ids, *self.document_ids]


def _values(span: ErasureSpan) -> dict[str, Any]:
    return {
        "workspace_id": span.workspace_id,
        "user_id": span.user_id,
        "successor_id": span.successor_id,
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


_LOCK_USER = "SELECT id FROM app_user WHERE id = %(id)s FOR UPDATE"


async def lock_user(db: Db, user_id: UserId) -> bool:
    """Block new transactions of this user until ours ends, and wait for running ones."""
    return await (await db.execute(_LOCK_USER, {"id": user_id})).fetchone() is not None


_SUCCESSOR = """
    SELECT other.id
    FROM app_user other
    JOIN app_user erased ON erased.id = %(user_id)s AND erased.org_id = other.org_id
    WHERE other.id <> erased.id AND other.archived_at IS NULL
    ORDER BY other.is_admin DESC, other.created_at, other.id
    LIMIT 1
"""
_KEY_IDS = "SELECT id FROM api_key WHERE user_id = %(user_id)s"


async def find_successor(db: Db, user_id: UserId) -> UserId | None:
    """Return the user of the org who succeeds an erased user; None when no other is left."""
    row = await (await db.execute(_SUCCESSOR, {"user_id": user_id})).fetchone()
    return UserId(row[0]) if row else None


async def find_key_ids(db: Db, user_id: UserId) -> list[UUID]:
    """Return the ids of a user's keys, revoked ones included."""
    return await _ids(db, _KEY_IDS, {"user_id": user_id})


# These find and lock the rows. Threads are locked before memories, as everywhere else.
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
# A transaction that saves a candidate locks it. Once ours has deleted it, every memory made from
# it is committed and visible.
_CANDIDATES = """
    DELETE FROM candidate c
    USING inbox_item l
    WHERE c.workspace_id = %(workspace_id)s AND l.workspace_id = %(workspace_id)s
        AND l.id = c.inbox_item_id
        AND (l.user_id = %(user_id)s OR l.subject = %(subject)s
             OR l.thread_id = ANY(%(thread_ids)s))
    RETURNING c.memory_id, c.quote
"""
# A candidate may point to another person's memory that says the same; that one stays. A memory made
# from the candidate has its quote.
_LEARNT = """
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s) AND m.quote = ANY(%(quotes)s)
        AND m.origin <> 'user'
"""
# Segment summaries that the server wrote in the user's name from other people's threads stay.
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


async def lock_rows(db: Db, span: ErasureSpan) -> tuple[ErasureSpan, int]:
    """Lock and list the rows to erase; return them and the number of candidates.

    Candidates must go first, so they are deleted here.
    """
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
    candidates = await (await db.execute(_CANDIDATES, _values(span))).fetchall()
    learnt = {
        "workspace_id": span.workspace_id,
        "ids": [row[0] for row in candidates if row[0]],
        "quotes": [row[1] for row in candidates],
    }
    span = replace(span, learnt_ids=await _ids(db, _LEARNT, learnt))
    await lock_supersession(db, span.workspace_id)
    await lock_totals(db, span.workspace_id)
    found = await (await db.execute(_MEMORIES, _values(span))).fetchall()
    span = replace(
        span,
        document_ids=await _ids(db, _DOCUMENTS, _values(span)),
        memory_ids=[row[0] for row in found],
        codes=[*span.codes, *(row[1] for row in found)],
    )
    return span, len(candidates)


_INBOX_ITEMS = """
    DELETE FROM inbox_item
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR subject = %(subject)s OR thread_id = ANY(%(thread_ids)s))
"""
# Responses of the person or the thread, and those that contain an erased thread or memory.
_RESPONSES = """
    DELETE FROM response
    WHERE workspace_id = %(workspace_id)s
        AND (user_id = %(user_id)s OR subject = %(subject)s
             OR conversation = ANY(%(thread_names)s)
             OR EXISTS (
                SELECT FROM unnest(%(codes)s::text[]) AS gone (code)
                WHERE strpos(input::text || messages::text || answer::text, left(code, 12)) > 0))
"""
_BUILTIN_CALLS = """
    DELETE FROM builtin_call
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
_OWN_RESPONSES = """
    DELETE FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND key_id = ANY(%(key_ids)s)
"""
# Responses stored for other callers may contain erased data, even paraphrased by a model. Their
# rows stay, so that the requests are not repeated. A running request loses its claim and stores
# nothing.
_STORED_RESPONSES = """
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
_LINKS = """
    DELETE FROM memory_link
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
        SELECT i.memory_id, i.owner_id, unnest(i.terms) AS term
        FROM memory_terms i
        WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s)
    ) AS indexed
    WHERE w.workspace_id = %(workspace_id)s AND w.term = indexed.term
        AND w.owner_id = indexed.owner_id AND w.memory_id = indexed.memory_id
"""
_COMMON_WORDS = """
    DELETE FROM common_word c
    WHERE c.workspace_id = %(workspace_id)s
        AND c.term IN (
            SELECT unnest(i.terms) FROM memory_terms i
            WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s))
        AND NOT EXISTS (
            SELECT FROM memory_word w
            WHERE w.workspace_id = %(workspace_id)s AND w.term = c.term AND w.owner_id = c.owner_id)
"""
_TOTALS = """
    INSERT INTO keyword_total (workspace_id, owner_id, documents, length)
    SELECT %(workspace_id)s, i.owner_id, -count(*), -sum(i.length)
    FROM memory_terms i
    WHERE i.workspace_id = %(workspace_id)s AND i.memory_id = ANY(%(memory_ids)s)
    GROUP BY i.owner_id
"""
# Keyword statistics of the scope owners that are erased.
_OF_SCOPE_OWNERS = """
    WHERE workspace_id = %(workspace_id)s AND (
        owner_id IN (%(user_id)s, %(project_id)s, %(agent_id)s) OR owner_id = ANY(%(thread_ids)s))
"""
_COMMON_OF_SCOPE_OWNERS = f"DELETE FROM common_word {_OF_SCOPE_OWNERS}"
_TOTALS_OF_SCOPE_OWNERS = f"DELETE FROM keyword_total {_OF_SCOPE_OWNERS}"
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
    DELETE FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(memory_ids)s)
"""
_ERASE_MEMORIES = """
    DELETE FROM memory
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(memory_ids)s)
"""
# A memory that an erased one superseded is superseded by another one, or becomes current again.
_REOPENED = f"""
    UPDATE memory
    SET superseded_by = closed.by, valid_until = closed.at
    FROM (
        SELECT t.id, first.source_id AS by, first.created_at AS at
        FROM memory t
        LEFT JOIN LATERAL ({CLOSED_BY}) AS first ON true
        WHERE t.workspace_id = %(workspace_id)s AND t.superseded_by = ANY(%(memory_ids)s)
    ) AS closed
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = closed.id
"""
# Memories that stay but refer to erased rows.
_DETACH_MEMORIES = """
    UPDATE memory
    SET thread_id = CASE WHEN thread_id = ANY(%(thread_ids)s) THEN NULL ELSE thread_id END,
        project_id = CASE WHEN project_id = %(project_id)s THEN NULL ELSE project_id END,
        agent_id = CASE WHEN agent_id = %(agent_id)s THEN NULL ELSE agent_id END,
        user_id = CASE WHEN user_id = %(user_id)s THEN %(successor_id)s ELSE user_id END
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
_DETACH_DOCUMENTS = """
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
    SET message_count = t.message_count - erased.count
    FROM (
        SELECT s.thread_id, count(*) AS count FROM message s
        WHERE s.workspace_id = %(workspace_id)s AND s.id = ANY(%(message_ids)s)
        GROUP BY s.thread_id
    ) AS erased
    WHERE t.workspace_id = %(workspace_id)s AND t.id = erased.thread_id
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
# Audit events keep the action, its time, the id it was done to and a hash. They lose the user, the
# subject and the reason.
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

# Table and statement, in an order in which no row refers to a deleted one. Tables that ON DELETE
# CASCADE would empty have their own step too, because the receipt counts their rows. The names are
# part of the receipts; a name with a space counts changed rows, not deleted ones.
STEPS: Sequence[tuple[str, LiteralString]] = (
    ("inbox_item", _INBOX_ITEMS),
    ("response", _RESPONSES),
    ("builtin_call", _BUILTIN_CALLS),
    ("injection", _INJECTIONS),
    ("idempotency", _OWN_RESPONSES),
    ("idempotency", _STORED_RESPONSES),
    ("memory_source", _SOURCES),
    ("memory_link inherited", INHERIT),
    ("memory_link", _LINKS),
    ("memory_vector", _VECTORS),
    ("memory_word", _WORDS),
    ("common_word", _COMMON_WORDS),
    ("common_word", _COMMON_OF_SCOPE_OWNERS),
    ("keyword_total", _TOTALS),
    ("keyword_total", _TOTALS_OF_SCOPE_OWNERS),
    ("memory_terms", _TERMS),
    ("asset_piece", _ASSET_PIECES),
    ("asset", _ASSETS),
    ("memory_message", _MADE_OF),
    ("segment", _SEGMENTS),
    ("memory_past_text", _TEXTS),
    ("memory", _ERASE_MEMORIES),
    ("memory replaced", _REOPENED),
    ("memory let go", _DETACH_MEMORIES),
    ("chunk_word", _CHUNK_WORDS),
    ("chunk_vector", _CHUNK_VECTORS),
    ("chunk", _CHUNKS),
    ("document_piece", _DOCUMENT_PIECES),
    ("document", _ERASE_DOCUMENTS),
    ("document let go", _DETACH_DOCUMENTS),
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
    "generation": "which embedding model a workspace uses; no user data",
    "common_word_run": "one number per workspace",
    "model_call": "model usage and cost, without users or content",
    "job": "work to do in a workspace; it names no person",
    "erasure": "the receipts themselves: hashes and counts",
    "migration": "which migrations ran",
}
# Tables of users and orgs, whose rows are deleted with the user or the org.
ACCOUNT_TABLES = ("sign_in", "sign_in_try", "api_key", "app_user", "workspace", "org")
# Tables from which a step or `_CANDIDATES` deletes rows.
STEP_TABLES = frozenset({"candidate", *(table for table, _ in STEPS if " " not in table)})


async def run_steps(db: Db, span: ErasureSpan) -> dict[str, int]:
    """Delete the rows that `lock_rows` found; return the number of rows by table."""
    values = _values(span)
    counts: dict[str, int] = {}
    for table, statement in STEPS:
        counts[table] = counts.get(table, 0) + (await db.execute(statement, values)).rowcount
    return counts


_ERASE_SIGN_INS = "DELETE FROM sign_in WHERE user_id = %(user_id)s"
# Keyed by the hash of the login, as in `tenancy.sign_in`. Those of an address name no person.
_ERASE_ATTEMPTS = """
    DELETE FROM sign_in_try
    WHERE subject IN (
        SELECT sha256(convert_to('account ' || login, 'UTF8')) FROM app_user
        WHERE id = %(user_id)s)
"""
_ERASE_KEYS = "DELETE FROM api_key WHERE user_id = %(user_id)s"
_ERASE_USER = "DELETE FROM app_user WHERE id = %(user_id)s"


async def erase_account(db: Db, user_id: UserId) -> dict[str, int]:
    """Delete a user's account, keys and sign-ins, after all their data."""
    values = {"user_id": user_id}
    return {
        "sign_in": (await db.execute(_ERASE_SIGN_INS, values)).rowcount,
        "sign_in_try": (await db.execute(_ERASE_ATTEMPTS, values)).rowcount,
        "api_key": (await db.execute(_ERASE_KEYS, values)).rowcount,
        "app_user": (await db.execute(_ERASE_USER, values)).rowcount,
    }


# A whole workspace: every table with its rows, in an order that foreign keys allow.
_EMPTY = sql.SQL("DELETE FROM {table} WHERE workspace_id = %(workspace_id)s")
# Children before their parents; the tables of `STEPS` first, in the same order.
WORKSPACE_TABLES = tuple(
    dict.fromkeys(
        [
            "candidate",
            *(table for table, _ in STEPS if " " not in table),
            "generation",
            "common_word_run",
            "model_call",
            "job",
            "api_key",
        ]
    )
)
_LOCK_WORKSPACE = "SELECT id FROM workspace WHERE id = %(workspace_id)s FOR UPDATE"
_ERASE_WORKSPACE = "DELETE FROM workspace WHERE id = %(workspace_id)s"


async def empty_workspace(db: Db, workspace_id: WorkspaceId) -> dict[str, int]:
    """Delete a workspace with everything in it; return the number of rows by table."""
    values = {"workspace_id": workspace_id}
    # Every writer in the workspace locks its row by foreign key.
    await db.execute(_LOCK_WORKSPACE, values)
    counts: dict[str, int] = {}
    for table in WORKSPACE_TABLES:
        statement = _EMPTY.format(table=sql.Identifier(table))
        counts[table] = (await db.execute(statement, values)).rowcount
    counts["workspace"] = (await db.execute(_ERASE_WORKSPACE, values)).rowcount
    return counts


_LOCK_USERS = "SELECT id FROM app_user WHERE org_id = %(org_id)s FOR UPDATE"
_ERASE_ORG_KEYS = "DELETE FROM api_key WHERE org_id = %(org_id)s"
_ERASE_USERS = "DELETE FROM app_user WHERE org_id = %(org_id)s"
_ERASE_ORG = "DELETE FROM org WHERE id = %(org_id)s"


async def lock_users(db: Db, org_id: OrgId) -> list[UUID]:
    """Lock every user of an org, as `lock_user` does; return their ids."""
    return await _ids(db, _LOCK_USERS, {"org_id": org_id})


async def erase_org(db: Db, org_id: OrgId) -> dict[str, int]:
    """Delete an org, its users and keys, after its workspaces."""
    values = {"org_id": org_id}
    return {
        "api_key": (await db.execute(_ERASE_ORG_KEYS, values)).rowcount,
        "app_user": (await db.execute(_ERASE_USERS, values)).rowcount,
        "org": (await db.execute(_ERASE_ORG, values)).rowcount,
    }


async def _ids(db: Db, query: LiteralString, values: dict[str, Any]) -> list[UUID]:
    return [row[0] for row in await (await db.execute(query, values)).fetchall()]
