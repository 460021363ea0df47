"""Memories after 400 days of maintenance, the same over every transport."""

from datetime import timedelta

import pytest

from recollect.engine import Engine
from recollect.maintenance import survey, tidy
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.tools import (
    TYPES,
    Surface,
    memory_row,
    recall,
    recall_texts,
    save_memory,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def database_url(databases: TestDatabases) -> str:
    """A database for each test: maintenance visits every workspace."""
    return databases.clone()


async def run_400_days(
    tools: Surface, engine: Engine, clock: Clock, *, recalled: str | None = None
) -> None:
    """Advance 400 days with maintenance every 40; recall the tag daily in the last 20 days."""
    for day in range(1, 401):
        clock.advance(timedelta(days=1))
        if recalled and day > 380:
            await recall(tools, mode="recent", tags=[recalled])
        if day % 40 == 0:
            await survey(engine)
            await tidy(engine)
            await Worker(engine, slots=1).run_until_empty()


async def test_R246_R247_identity_memories_never_decay_and_stay_recallable(
    tools: Surface, engine: Engine, clock: Clock
) -> None:
    for kind in TYPES:
        await save_memory(tools, f"Remember the {kind}", memory_type=kind, importance=0.6)
    for kind in ("identity", "fact"):
        await save_memory(tools, f"A faint {kind}", memory_type=kind, importance=0.05)

    await run_400_days(tools, engine, clock)

    shown = {each["content"]: each["importance"] for each in await recall(tools, mode="recent")}
    identities = {"Remember the identity": 0.6, "A faint identity": 0.05}
    decayed = {f"Remember the {kind}": 0.27 for kind in TYPES if kind != "identity"}
    assert shown == pytest.approx(identities | decayed)  # the faint fact was pruned
    for found in (
        await recall_texts(tools, mode="typed", memory_type="identity"),
        await recall_texts(tools, mode="important", memory_type="identity"),
        await recall_texts(tools, "faint identity to remember", memory_type="identity"),
    ):
        assert set(found) == set(identities)


async def test_R264_a_memory_that_is_recalled_often_gains_importance(
    tools: Surface, engine: Engine, clock: Clock
) -> None:
    await save_memory(tools, "The gate code is 4711", tags=["used"])
    await save_memory(tools, "The attic key is blue", tags=["idle"])

    await run_400_days(tools, engine, clock, recalled="used")

    used, idle = await recall(tools, mode="important")
    assert (used["content"], idle["content"]) == ("The gate code is 4711", "The attic key is blue")
    assert used["importance"] > 0.5 > idle["importance"]


async def test_R275_maintenance_does_not_change_forgotten_memories(
    tools: Surface, engine: Engine, clock: Clock
) -> None:
    saved = await save_memory(tools, "The gate code is 4711", importance=0.05)
    await tools.call("memory_delete", memory_id=saved)
    before = await memory_row(engine, saved)

    await run_400_days(tools, engine, clock)

    assert await memory_row(engine, saved) == before
    assert await recall(tools, mode="recent") == []
