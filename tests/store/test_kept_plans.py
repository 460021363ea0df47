"""A plan that is kept serves all workspaces of a database, the small beside the large."""

import pytest

from recollect.domain import Caller, Filter
from recollect.engine.core import Engine
from recollect.engine.save import Save, save
from recollect.store import vectors
from recollect.store.vectors import Point
from tests.support.embedder import at_cosine
from tests.support.plans import explained

pytestmark = pytest.mark.anyio

# As if the table were so large that more processes were worth their start.
EAGER = """
    SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;
    SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0;
    SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off
"""


@pytest.mark.parametrize("is_filtered", [False, True])
async def test_a_plan_that_is_kept_starts_no_processes_for_what_may_be_a_few_rows(
    engine: Engine, caller: Caller, *, is_filtered: bool
) -> None:
    await save(engine, caller, Save("Ada drinks tea"))

    async with engine.searching(caller, is_filtered=is_filtered) as db:
        await db.execute(EAGER)
        with explained() as plans:
            point = Point(1, at_cosine(1.0))
            await vectors.candidates(db, caller, point, Filter(), limit=10, now=engine.now())

    assert ("Gather" in plans[0].text) == is_filtered
