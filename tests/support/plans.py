"""Record the query plans of the long statements while they run."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement and the output of its `EXPLAIN`."""

    query: str
    lines: list[Any]

    @property
    def text(self) -> str:
        """The plan as text."""
        return "\n".join(self.lines)


@contextmanager
def record_plans(options: str = "VERBOSE OFF") -> Generator[list[Explained]]:
    """The plans of all statements that run as `PreparedQuery` within the block."""
    plans: list[Explained] = []
    plain: Any = psycopg.AsyncRawCursor

    class ExplainingCursor(plain):
        async def execute(self, query: str, values: Any = None, **arguments: Any) -> Any:
            async with plain(self.connection) as cursor:
                await cursor.execute(f"EXPLAIN ({options}) {query}", values)
                plans.append(Explained(query, [line for (line,) in await cursor.fetchall()]))
            return await plain.execute(self, query, values, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "AsyncRawCursor", ExplainingCursor)
        yield plans
