"""Questions about the database itself."""

from dataclasses import dataclass

from recollect.store.pool import Db

_ALIVE = "SELECT 1"


async def ask(db: Db) -> None:
    """Come back if the database answers."""
    await db.execute(_ALIVE)


@dataclass(frozen=True, slots=True)
class Facts:
    """What `recollect doctor` looks at."""

    version: int
    vector: str | None
    trigram: str | None
    is_superuser: bool
    bypasses_row_security: bool
    clock_seconds: float
    bytes_used: int
    memories: int
    lacking: int


_FACTS = """
    SELECT current_setting('server_version_num')::integer AS version,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector,
        (SELECT extversion FROM pg_extension WHERE extname = 'pg_trgm') AS trigram,
        role.rolsuper AS is_superuser,
        role.rolbypassrls AS bypasses_row_security,
        extract(epoch FROM clock_timestamp())::float8 AS clock_seconds,
        pg_database_size(current_database()) AS bytes_used
    FROM pg_roles role
    WHERE role.rolname = current_user
"""
# everywhere: counts for the operator.
_COUNTS = """
    SELECT count(*), count(*) FILTER (
        WHERE m.wants_vector AND NOT m.vector_refused AND NOT EXISTS (
            SELECT FROM memory_vector v
            WHERE v.workspace_id = m.workspace_id AND v.memory_id = m.id))
    FROM memory m
    WHERE m.deleted_at IS NULL
"""


async def facts(db: Db) -> Facts:
    """Versions, rights, clock and size, and how many memories there are."""
    row = await (await db.execute(_FACTS)).fetchone()
    counts = await (await db.execute(_COUNTS)).fetchone()
    assert row
    assert counts
    return Facts(*row, *counts)
