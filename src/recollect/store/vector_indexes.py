"""Vector indexes: a partial one for each large workspace and each long thread.

They are built and dropped beside the traffic.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.errors import DiskFull, OutOfMemory

from recollect.domain import ThreadId, WorkspaceId
from recollect.store.pool import Db, Pool, is_pooled
from recollect.store.vectors import LEAST_SHARED

# Up to here an index can hold the vectors; beyond, the exact scan serves.
MOST_DIMENSIONS = 4_000

# From here on an index has twice the links a vector, and twice the effort goes into building it.
# Among a million made-up vectors 1,000 places, the most it considers, then found .996 of the exact
# ten; with the links alone .976, with neither .946. Among 100,000 it is quicker without.
_DENSE_FROM = 200_000

# everywhere: finds the workspaces and threads worth an index, or a denser one than they have. The
# tally of words counts memories already: those cut from a chat lie in the place that the chat is.
_LARGE = """
    SELECT tally.workspace_id, g.number, g.dimension, tally.documents >= %(dense)s, i.name,
        tally.place
    FROM (
        SELECT workspace_id, place, sum(documents) AS documents,
            sum(documents) FILTER (WHERE place = workspace_id) AS shared
        FROM word_tally
        GROUP BY GROUPING SETS ((workspace_id), (workspace_id, place))
        HAVING sum(documents) >= least(%(least)s, %(least_in_thread)s)
    ) AS tally
    JOIN generation g ON g.workspace_id = tally.workspace_id AND g.state = 'serving'
    LEFT JOIN thread t ON t.workspace_id = tally.workspace_id AND t.id = tally.place
    LEFT JOIN vector_index i
        ON i.workspace_id = g.workspace_id AND i.generation = g.number
        AND i.thread_id IS NOT DISTINCT FROM tally.place
    WHERE g.dimension <= %(most_dimensions)s
        AND CASE
            WHEN tally.place IS NULL THEN tally.documents >= %(least)s
                AND tally.shared >= %(least_shared)s * tally.documents
            ELSE t.id IS NOT NULL AND tally.documents >= %(least_in_thread)s
        END
        AND (i.is_ready IS NOT TRUE OR (tally.documents >= %(dense)s AND NOT i.is_dense))
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A generation whose vectors are many enough for an index, or for a denser one."""

    workspace_id: WorkspaceId
    generation: int
    dimension: int
    is_dense: bool
    # The one it has, which serves until the other is built.
    former: str | None
    # Whose vectors; None for the whole workspace's.
    thread_id: ThreadId | None

    @property
    def name(self) -> str:
        """What the new one is called."""
        name = f"near_{(self.thread_id or self.workspace_id).hex}_{self.generation}"
        return f"{name}_dense" if self.is_dense else name


async def wanted(db: Db, *, least: int, least_in_thread: int) -> list[Wanted]:
    """What is missing in workspaces and in threads of at least so many memories."""
    values = {
        "least": least,
        "least_in_thread": least_in_thread,
        "dense": _DENSE_FROM,
        "least_shared": LEAST_SHARED,
        "most_dimensions": MOST_DIMENSIONS,
    }
    rows = await (await db.execute(_LARGE, values)).fetchall()
    return [Wanted(*row) for row in rows]


_ANNOUNCE = """
    INSERT INTO vector_index (workspace_id, generation, thread_id, name, is_dense)
    VALUES (%(workspace_id)s, %(generation)s, %(thread_id)s, %(name)s, %(is_dense)s)
    ON CONFLICT (workspace_id, generation, thread_id) DO NOTHING
"""


async def announce(db: Db, wanted: Wanted) -> None:
    """Say that an index is going to be there: what nobody knows of is a stray."""
    await db.execute(_ANNOUNCE, _values(wanted))


# What has gone meanwhile, with its thread or its workspace, does not come back.
_NOTE = """
    UPDATE vector_index
    SET name = %(name)s, is_ready = true, is_dense = %(is_dense)s
    WHERE workspace_id = %(workspace_id)s AND generation = %(generation)s
        AND thread_id IS NOT DISTINCT FROM %(thread_id)s
"""


async def note(db: Db, wanted: Wanted) -> None:
    """Remember that an index is there."""
    await db.execute(_NOTE, _values(wanted))


def _values(wanted: Wanted) -> dict[str, Any]:
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
    """The table that holds a workspace's vectors."""
    row = await (await db.execute(_PARTITION, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


# Concurrently, so that saves go on; a build that was cut short leaves a broken index to drop first.
_DROP = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}")
# Twice pgvector's own effort in building, and again for a dense one: of 100,000 the index then
# finds .993 of the exact ten, which `python -m bench.growth` shows.
_BUILD = sql.SQL(
    "CREATE INDEX CONCURRENTLY {name} ON {table} "
    "USING hnsw ((embedding::halfvec({dimension})) halfvec_cosine_ops) "
    "WITH (m = {links}, ef_construction = {effort}) "
    "WHERE workspace_id = {workspace_id} AND generation = {generation} {within}"
)
_OF_THREAD = sql.SQL("AND thread_id = {thread_id}")
# own connection: nobody else uses it, so that what is set may last. Behind a pooler others would.
_ROOM = """
    SELECT set_config('max_parallel_maintenance_workers', '2', false),
        set_config('maintenance_work_mem', greatest(
            pg_size_bytes(current_setting('maintenance_work_mem')), pg_size_bytes('512MB')
        ) / 1024 || 'kB', false)
"""
# own connection: the same one.
_ALONE = "SET max_parallel_maintenance_workers = 0"


async def build(pool: Pool, wanted: Wanted, table: str) -> None:
    """Build the index in place of the former; takes about a minute for 100,000 vectors."""
    name = sql.Identifier(wanted.name)
    statement = _BUILD.format(
        name=name,
        table=sql.Identifier(table),
        dimension=sql.Literal(wanted.dimension),
        links=sql.Literal(32 if wanted.is_dense else 16),
        effort=sql.Literal(256 if wanted.is_dense else 128),
        workspace_id=sql.Literal(wanted.workspace_id),
        generation=sql.Literal(wanted.generation),
        within=_within(wanted),
    )
    async with await pool.beside() as db:
        is_shared = await is_pooled(db)
        if not is_shared:
            await db.execute(_ROOM)
        await db.execute(_DROP.format(name=name))
        try:
            await db.execute(statement)
        except (DiskFull, OutOfMemory):
            # Several build in shared memory, of which a container often has 64 MB; one needs none.
            if is_shared:
                raise
            await db.execute(_ALONE)
            await db.execute(_DROP.format(name=name))
            await db.execute(statement)
        if wanted.former and wanted.former != wanted.name:
            await db.execute(_DROP.format(name=sql.Identifier(wanted.former)))


def _within(wanted: Wanted) -> sql.SQL | sql.Composed:
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
    """Forget the indexes of retired generations; their names, to drop them."""
    rows = await (await db.execute(_RETIRED, {"workspace_id": workspace_id})).fetchall()
    return [row[0] for row in rows]


# everywhere: the row of an index goes with its thread or its workspace, in their transaction, in
# which nothing can be dropped beside the traffic. A denser one has no row until it is built.
_STRAYS = """
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


async def strays(db: Db) -> list[str]:
    """Indexes of what is no longer there, by name."""
    return [row[0] for row in await (await db.execute(_STRAYS)).fetchall()]


async def drop(pool: Pool, name: str) -> None:
    """Drop an index beside the traffic."""
    async with await pool.beside() as db:
        await db.execute(_DROP.format(name=sql.Identifier(name)))
