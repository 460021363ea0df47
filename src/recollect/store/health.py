"""Whether the database answers at all."""

from recollect.store.pool import Db

_ALIVE = "SELECT 1"


async def ask(db: Db) -> None:
    """Come back if the database answers."""
    await db.execute(_ALIVE)
