"""Vector indexes: a partial one for each large workspace and each long thread.

They are built and dropped concurrently, without blocking reads and writes.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.errors import DiskFull, OutOfMemory

from recollect.core.domain import ThreadId, WorkspaceId
from recollect.db.pool import Db, Pool, is_pooled
from recollect.embeddings.queries.vectors import MIN_SHARED

# The limit of an index. With more dimensions, searches use the exact scan.
MAX_DIMENSIONS = 4_000

# From this size on, an index is dense: twice the links per vector, and twice the build effort.
# Among a million synthetic vectors, a search with 1,000 candidates (pgvector's maximum) then found
# .996 of the exact ten; with more links only .976, with neither .946. At 100,000, an index that is
# not dense is faster.
_MIN_DENSE = 200_000

# everywhere: finds the workspaces and threads that need an index, or a denser one. `keyword_total`
# already counts memories: the `owner_id` of memories with scope `thread` is the thread's id.
_WANTED = """
    SELECT totals.workspace_id, g.number, g.dimension, totals.documents >= %(dense)s, i.name,
        totals.owner_id
    FROM (
        SELECT workspace_id, owner_id, sum(documents) AS documents,
            sum(documents) FILTER (WHERE owner_id = workspace_id) AS shared
        FROM keyword_total
        GROUP BY GROUPING SETS ((workspace_id), (workspace_id, owner_id))
        HAVING sum(documents) >= least(%(min_memories)s, %(min_in_thread)s)
    ) AS totals
    JOIN generation g ON g.workspace_id = totals.workspace_id AND g.state = 'serving'
    LEFT JOIN thread t ON t.workspace_id = totals.workspace_id AND t.id = totals.owner_id
    LEFT JOIN vector_index i
        ON i.workspace_id = g.workspace_id AND i.generation = g.number
        AND i.thread_id IS NOT DISTINCT FROM totals.owner_id
    WHERE g.dimension <= %(max_dimensions)s
        AND CASE
            WHEN totals.owner_id IS NULL THEN totals.documents >= %(min_memories)s
                AND totals.shared >= %(min_shared)s * totals.documents
            ELSE t.id IS NOT NULL AND totals.documents >= %(min_in_thread)s
        END
        AND (i.is_ready IS NOT TRUE OR (totals.documents >= %(dense)s AND NOT i.is_dense))
"""


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """A generation with enough vectors for an index, or for a denser one."""

    workspace_id: WorkspaceId
    generation: int
    dimension: int
    is_dense: bool
    # The existing index, which serves until the new one is built.
    former: str | None
    # The thread whose vectors it covers; None for the whole workspace.
    thread_id: ThreadId | None

    @property
    def name(self) -> str:
        """The name of the new index."""
        name = f"near_{(self.thread_id or self.workspace_id).hex}_{self.generation}"
        return f"{name}_dense" if self.is_dense else name


async def wanted_indexes(db: Db, *, min_memories: int, min_in_thread: int) -> list[WantedIndex]:
    """Return the missing indexes of workspaces and threads with at least that many memories."""
    values = {
        "min_memories": min_memories,
        "min_in_thread": min_in_thread,
        "dense": _MIN_DENSE,
        "min_shared": MIN_SHARED,
        "max_dimensions": MAX_DIMENSIONS,
    }
    rows = await (await db.execute(_WANTED, values)).fetchall()
    return [WantedIndex(*row) for row in rows]


_INSERT_PENDING = """
    INSERT INTO vector_index (workspace_id, generation, thread_id, name, is_dense)
    VALUES (%(workspace_id)s, %(generation)s, %(thread_id)s, %(name)s, %(is_dense)s)
    ON CONFLICT (workspace_id, generation, thread_id) DO NOTHING
"""


async def insert_pending(db: Db, wanted: WantedIndex) -> None:
    """Record that an index is being built: an index without a row counts as unused."""
    await db.execute(_INSERT_PENDING, _values(wanted))


# If the row was deleted meanwhile with its thread or workspace, it is not created again.
_MARK_READY = """
    UPDATE vector_index
    SET name = %(name)s, is_ready = true, is_dense = %(is_dense)s
    WHERE workspace_id = %(workspace_id)s AND generation = %(generation)s
        AND thread_id IS NOT DISTINCT FROM %(thread_id)s
"""


async def mark_ready(db: Db, wanted: WantedIndex) -> None:
    """Record that an index is ready."""
    await db.execute(_MARK_READY, _values(wanted))


def _values(wanted: WantedIndex) -> dict[str, Any]:
    return {
        "workspace_id": wanted.workspace_id,
        "generation": wanted.generation,
        "thread_id": wanted.thread_id,
        "name": wanted.name,
        "is_dense": wanted.is_dense,
    }


_PARTITION = """
    SELECT tableoid::regclass::text FROM memory_vector
    WHERE workspace_id = %(workspace_id)s
    LIMIT 1
"""


async def partition(db: Db, workspace_id: WorkspaceId) -> str | None:
    """Return the partition that contains a workspace's vectors."""
    row = await (await db.execute(_PARTITION, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


# Concurrently, so that saves continue. An interrupted build leaves an invalid index, dropped first.
_DROP = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}")
# Twice pgvector's default build effort, and twice again for a dense index: among 100,000 the index
# then finds .993 of the exact ten (`python -m bench.growth`).
_BUILD = sql.SQL(
    "CREATE INDEX CONCURRENTLY {name} ON {table} "
    "USING hnsw ((embedding::halfvec({dimension})) halfvec_cosine_ops) "
    "WITH (m = {links}, ef_construction = {effort}) "
    "WHERE workspace_id = {workspace_id} AND generation = {generation} {condition}"
)
_OF_THREAD = sql.SQL("AND thread_id = {thread_id}")
# own connection: no one else uses it, so session settings are safe. Behind a pooler they are not.
_SET_MEMORY = """
    SELECT set_config('max_parallel_maintenance_workers', '2', false),
        set_config('maintenance_work_mem', greatest(
            pg_size_bytes(current_setting('maintenance_work_mem')), pg_size_bytes('512MB')
        ) / 1024 || 'kB', false)
"""
# own connection: the same as above.
_SET_ONE_WORKER = "SET max_parallel_maintenance_workers = 0"


async def build(pool: Pool, wanted: WantedIndex, table: str) -> None:
    """Build the index and drop the former one; takes about a minute for 100,000 vectors."""
    name = sql.Identifier(wanted.name)
    statement = _BUILD.format(
        name=name,
        table=sql.Identifier(table),
        dimension=sql.Literal(wanted.dimension),
        links=sql.Literal(32 if wanted.is_dense else 16),
        effort=sql.Literal(256 if wanted.is_dense else 128),
        workspace_id=sql.Literal(wanted.workspace_id),
        generation=sql.Literal(wanted.generation),
        condition=_thread_condition(wanted),
    )
    async with await pool.direct_connection() as db:
        has_pooler = await is_pooled(db)
        if not has_pooler:
            await db.execute(_SET_MEMORY)
        await db.execute(_DROP.format(name=name))
        try:
            await db.execute(statement)
        except (DiskFull, OutOfMemory):
            # Parallel workers use shared memory, often limited to 64 MB in a container; one worker
            # needs none.
            if has_pooler:
                raise
            await db.execute(_SET_ONE_WORKER)
            await db.execute(_DROP.format(name=name))
            await db.execute(statement)
        if wanted.former and wanted.former != wanted.name:
            await db.execute(_DROP.format(name=sql.Identifier(wanted.former)))


def _thread_condition(wanted: WantedIndex) -> sql.SQL | sql.Composed:
    if wanted.thread_id is None:
        return sql.SQL("")
    return _OF_THREAD.format(thread_id=sql.Literal(wanted.thread_id))


_RETIRED = """
    DELETE FROM vector_index i USING generation g
    WHERE i.workspace_id = %(workspace_id)s AND g.workspace_id = i.workspace_id
        AND g.number = i.generation AND g.state = 'retired'
    RETURNING i.name
"""


async def forget_retired(db: Db, workspace_id: WorkspaceId) -> list[str]:
    """Delete the rows of retired generations' indexes; return the names of indexes to drop."""
    rows = await (await db.execute(_RETIRED, {"workspace_id": workspace_id})).fetchall()
    return [row[0] for row in rows]


# everywhere: the row of an index is deleted with its thread or workspace, in a transaction in which
# no index can be dropped concurrently. A denser index has no row until it is built.
_UNUSED = """
    SELECT found.relname::text
    FROM pg_inherits part
    JOIN pg_index each ON each.indrelid = part.inhrelid
    JOIN pg_class found ON found.oid = each.indexrelid
    WHERE part.inhparent = 'memory_vector'::regclass
        AND starts_with(found.relname::text, 'near_')
        AND NOT EXISTS (
            SELECT FROM vector_index i
            WHERE found.relname::text IN (i.name, i.name || '_dense')
        )
"""


async def unused_indexes(db: Db) -> list[str]:
    """Return the names of indexes whose thread or workspace no longer exists."""
    return [row[0] for row in await (await db.execute(_UNUSED)).fetchall()]


async def drop(pool: Pool, name: str) -> None:
    """Drop an index concurrently."""
    async with await pool.direct_connection() as db:
        await db.execute(_DROP.format(name=sql.Identifier(name)))
