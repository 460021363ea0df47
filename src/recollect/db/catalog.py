"""Queries about the database as a whole: tables, row counts, extensions and the role's rights.

For `backup`, `move` and `doctor`, which look at the whole server and not at one workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from recollect.db.pool import Db

EXTENSIONS = ("vector", "pg_trgm")


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The facts about the server, the database and the role that we depend on."""

    version_number: int
    version: str
    database: str
    encoding: str
    schema: str | None
    may_create: bool
    role: str
    is_superuser: bool
    bypasses_row_security: bool
    clock_seconds: float
    vector: str | None
    vector_schema: str | None
    trigram: str | None

    @property
    def major(self) -> int:
        """The first number of the server's version."""
        return self.version_number // 10_000


_FACTS = """
    SELECT current_setting('server_version_num')::integer AS version_number,
        split_part(current_setting('server_version'), ' ', 1) AS version,
        current_database()::text AS database,
        current_setting('server_encoding') AS encoding,
        current_schema()::text AS schema,
        coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
        role.rolname::text AS role,
        role.rolsuper AS is_superuser,
        role.rolbypassrls AS bypasses_row_security,
        extract(epoch FROM clock_timestamp())::float8 AS clock_seconds,
        vector.extversion AS vector,
        vector.extnamespace::regnamespace::text AS vector_schema,
        (SELECT extversion FROM pg_extension WHERE extname = 'pg_trgm') AS trigram
    FROM pg_roles role
    LEFT JOIN pg_extension vector ON vector.extname = 'vector'
    WHERE role.rolname = current_user
"""


async def facts(db: Db) -> DatabaseFacts:
    """Versions, extensions, rights and the clock. Works without our tables."""
    async with db.cursor(row_factory=class_row(DatabaseFacts)) as cursor:
        await cursor.execute(_FACTS)
        found = await cursor.fetchone()
    assert found
    return found


_TABLES = """
    SELECT c.relname::text
    FROM pg_class c
    WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema()))
        AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND NOT EXISTS (
            SELECT FROM pg_depend d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
        )
    ORDER BY c.relname
"""


async def tables(db: Db) -> list[str]:
    """Every table of the current schema, without partitions and the tables of extensions."""
    return [row[0] for row in await (await db.execute(_TABLES)).fetchall()]


_SEE_ALL = "SET LOCAL recollect.reach = 'everywhere'"


async def disable_row_security(db: Db) -> None:
    """Make the rows of every workspace visible until the transaction ends."""
    await db.execute(_SEE_ALL)


# everywhere: a backup and its check count all workspaces.
_COUNT = sql.SQL("SELECT count(*) FROM {}")


async def count_rows(db: Db, names: Sequence[str]) -> dict[str, int]:
    """The number of rows of each table. Call `disable_row_security` first."""
    counts: dict[str, int] = {}
    for name in names:
        row = await (await db.execute(_COUNT.format(sql.Identifier(name)))).fetchone()
        assert row
        counts[name] = row[0]
    return counts


# The text of a row must not depend on how the server or the role is configured.
_PLAIN = """
    SET LOCAL timezone = 'UTC';
    SET LOCAL datestyle = 'ISO, YMD';
    SET LOCAL intervalstyle = 'postgres';
    SET LOCAL bytea_output = 'hex';
    SET LOCAL extra_float_digits = 1
"""
# A sum does not depend on the order of rows. Hash partitioning uses the same function, so its
# results are stable across PostgreSQL versions.
# everywhere: a move is complete when every row of every workspace has arrived.
_CONTENT = sql.SQL(
    "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {} t"
)


async def contents(db: Db, names: Sequence[str]) -> dict[str, str]:
    """A fingerprint of each table's rows. Call `disable_row_security` first."""
    await db.execute(_PLAIN)
    found: dict[str, str] = {}
    for name in names:
        row = await (await db.execute(_CONTENT.format(sql.Identifier(name)))).fetchone()
        assert row
        found[name] = row[0]
    return found


_NEWEST_MIGRATION = "SELECT number, name FROM migration ORDER BY number DESC LIMIT 1"


async def newest_migration(db: Db) -> tuple[int, str | None]:
    """Return the number and the name of the last migration applied; 0 if there is none."""
    row = await (await db.execute(_NEWEST_MIGRATION)).fetchone()
    return (row[0], row[1]) if row else (0, None)


_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_EXPORT = "SELECT pg_export_snapshot()"


async def begin_snapshot(db: Db) -> str:
    """Begin a snapshot transaction; return the snapshot's name, for other connections to use."""
    await db.execute(_BEGIN_SNAPSHOT)
    row = await (await db.execute(_EXPORT)).fetchone()
    assert row
    return row[0]


_OTHERS = """
    SELECT count(*)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL
        AND coalesce(backend_type, 'client backend') = 'client backend'
"""


async def other_connections(db: Db) -> int:
    """The number of other client connections to this database."""
    row = await (await db.execute(_OTHERS)).fetchone()
    assert row
    return row[0]


_CREATE_EXTENSION = sql.SQL("CREATE EXTENSION IF NOT EXISTS {}")


async def create_extensions(db: Db) -> None:
    """Create the required extensions if they are missing."""
    for name in EXTENSIONS:
        await db.execute(_CREATE_EXTENSION.format(sql.Identifier(name)))


_RESET = "RESET ALL"
_DROP_OWNED = "DROP OWNED BY CURRENT_USER"


async def reset_session(db: Db) -> None:
    """Reset the session's settings to their defaults."""
    await db.execute(_RESET)


async def drop_all(db: Db) -> None:
    """Drop everything that the role owns. Only for an embedded database that has no rows yet."""
    await db.execute(_DROP_OWNED)


_ANALYZE = "ANALYZE"


async def analyze(db: Db) -> None:
    """Update the planner's statistics after a bulk load."""
    await db.execute(_ANALYZE)


# `api_key` is read to identify the caller, before any workspace is known.
_UNPROTECTED = """
    SELECT c.relname::text
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped
    WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema()))
        AND c.relkind IN ('r', 'p') AND c.relname <> 'api_key'
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
    ORDER BY c.relname
"""


async def unprotected_tables(db: Db) -> list[str]:
    """Data tables and partitions whose row-level security is not both enabled and forced."""
    return [row[0] for row in await (await db.execute(_UNPROTECTED)).fetchall()]


# everywhere: counts for the operator.
_WITHOUT_VECTOR = """
    SELECT count(*) FILTER (WHERE v.memory_id IS NULL), count(*)
    FROM memory m
    LEFT JOIN generation g ON g.workspace_id = m.workspace_id AND g.state = 'serving'
    LEFT JOIN memory_vector v ON v.workspace_id = m.workspace_id AND v.memory_id = m.id
        AND v.generation = g.number
    WHERE m.deleted_at IS NULL AND m.wants_vector AND NOT m.vector_refused
"""


async def without_vector(db: Db) -> tuple[int, int]:
    """How many live memories lack a vector in the serving generation, and how many need one."""
    row = await (await db.execute(_WITHOUT_VECTOR)).fetchone()
    assert row
    return row[0], row[1]
