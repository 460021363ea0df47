"""How PostgreSQL goes about the long statements, asked while they run."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement and the answer to `EXPLAIN` of it."""

    query: str
    lines: list[Any]

    @property
    def text(self) -> str:
        """The plan to be read."""
        return "\n".join(self.lines)


@contextmanager
def explained(options: str = "VERBOSE OFF") -> Generator[list[Explained]]:
    """Each statement that is run as `Numbered` within, with its plan."""
    plans: list[Explained] = []
    plain: Any = psycopg.AsyncRawCursor

    class Explaining(plain):
        async def execute(self, query: str, values: Any = None, **told: Any) -> Any:
            async with plain(self.connection) as cursor:
                await cursor.execute(f"EXPLAIN ({options}) {query}", values)
                plans.append(Explained(query, [line for (line,) in await cursor.fetchall()]))
            return await plain.execute(self, query, values, **told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "AsyncRawCursor", Explaining)
        yield plans
