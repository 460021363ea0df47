"""Maintenance hides what is worn out or said again, and neither loses nor contradicts anything."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from recollect.domain import Caller, Ref, Relation, View
from recollect.engine.audit import ListEvents, list_events
from recollect.engine.change import Change, change, change_within, get
from recollect.engine.core import Engine
from recollect.engine.forget import forget, forget_within, restore
from recollect.engine.link import Link
from recollect.engine.save import Save, save
from recollect.engine.search import Finding, Mode, Search, search
from recollect.engine.spaces import no_beat
from recollect.engine.wear import wear_down
from recollect.errors import NotFound
from recollect.store import memories, wear
from recollect.store.pool import Db
from tests.support.clock import Clock
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

A_DAY = timedelta(days=1)
LONG = timedelta(days=100)


async def say(engine: Engine, caller: Caller, text: str = "Ada likes tea", **options: Any) -> Ref:
    fading: dict[str, Any] = {"lifecycle": "decaying", "category": "fact"}
    saved = await save(engine, caller, Save(text, **(fading | options)))
    return Ref(id=saved.memory.id)


async def maintain(engine: Engine, caller: Caller) -> None:
    await wear_down(engine, caller.workspace_id, no_beat)


async def findings(engine: Engine, caller: Caller, view: View | None = None) -> dict[UUID, Finding]:
    ask = Search(mode=Mode.RECENT, limit=50, view=view or View(), counts_as_access=False)
    found = await search(engine, caller, ask)
    return {finding.memory.id: finding for finding in found.findings}


async def recall(engine: Engine, caller: Caller) -> None:
    await search(engine, caller, Search(mode=Mode.RECENT, limit=50))


async def rows(engine: Engine, caller: Caller) -> list[dict[str, Any]]:
    """Every memory and every link, as they are kept."""
    async with engine.reading(caller) as db, db.cursor(row_factory=dict_row) as cursor:
        values = [caller.workspace_id]
        await cursor.execute("SELECT * FROM memory WHERE workspace_id = %s ORDER BY id", values)
        kept = await cursor.fetchall()
        await cursor.execute(
            "SELECT * FROM association WHERE workspace_id = %s"
            " ORDER BY source_id, target_id, relation",
            values,
        )
        return kept + await cursor.fetchall()


# Said again.


@pytest.mark.parametrize(
    "other",
    [
        {"expires_at": datetime(2026, 3, 4, tzinfo=UTC)},
        {"tags": ["kitchen"]},
        {"category": "Fact"},
        {"key": "drink"},
        {"subject": "Ada"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_differs_in_more_than_its_words_is_not_the_same(
    engine: Engine, caller: Caller, clock: Clock, other: dict[str, Any]
) -> None:
    ends = [await say(engine, caller)]
    clock.advance(A_DAY)
    ends.append(await say(engine, caller, **other))

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {end.id for end in ends}


async def test_what_was_said_for_good_outlives_the_same_said_for_a_day(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    for_good = await say(engine, caller)
    clock.advance(A_DAY)
    await say(engine, caller, expires_at=clock.at + A_DAY)
    await maintain(engine, caller)
    clock.advance(2 * A_DAY)

    assert set(await findings(engine, caller)) == {for_good.id}


async def test_what_happened_on_two_days_happened_twice_and_on_one_day_once(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    event: dict[str, Any] = {"text": "Went to the gym", "category": "event"}
    monday = await say(engine, caller, **event)
    clock.advance(2 * A_DAY)
    await say(engine, caller, **event)
    clock.advance(timedelta(hours=1))
    wednesday = await say(engine, caller, **event)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {monday.id, wednesday.id}


async def test_the_newest_takes_over_the_weight_the_uses_and_the_time_of_the_older(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await say(engine, caller, importance=0.9)
    await recall(engine, caller)
    then = clock.at
    clock.advance(A_DAY)
    newer = await say(engine, caller, importance=0.4)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}
    kept = await get(engine, caller, newer)
    assert kept.importance_base == 0.9
    assert kept.importance > 0.9
    assert (kept.access_count, kept.last_accessed_at) == (1, then)
    assert set(await findings(engine, caller, View(as_of=then))) == {newer.id}


async def test_what_was_said_again_keeps_the_one_that_was_used_from_wearing_out(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await say(engine, caller, importance=0.1)
    clock.advance(A_DAY)
    newer = await say(engine, caller, importance=0.1, wants_vector=False)
    clock.advance(LONG)
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE memory SET last_accessed_at = %s, access_count = 1"
            " WHERE workspace_id = %s AND id <> %s",
            [clock.at, caller.workspace_id, newer.id],
        )

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}


async def test_what_rests_on_a_statement_said_again_rests_on_the_newer_one(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    cause = await say(engine, caller, "The office is in Oslo")
    tram = await say(engine, caller, "Ana takes tram 12", links=[Link(cause, Relation.RESULT_OF)])
    clock.advance(A_DAY)
    again = await say(engine, caller, "The office is in Oslo")

    await maintain(engine, caller)
    merged = await findings(engine, caller)
    await forget(engine, caller, again)
    forgotten = await findings(engine, caller)

    assert {each: finding.is_doubted for each, finding in merged.items()} == {
        tram.id: False,
        again.id: False,
    }
    assert {each: finding.is_doubted for each, finding in forgotten.items()} == {tram.id: True}


async def test_what_rests_on_a_statement_that_is_merely_worn_out_is_not_in_doubt(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    cause = await say(engine, caller, "The office is in Oslo", importance=0.05)
    tram = await say(
        engine,
        caller,
        "Ana takes tram 12",
        lifecycle="permanent",
        links=[Link(cause, Relation.RESULT_OF)],
    )
    clock.advance(LONG)

    await maintain(engine, caller)

    found = await findings(engine, caller)
    assert {each: finding.is_doubted for each, finding in found.items()} == {tram.id: False}


async def test_links_are_followed_from_the_newest_as_they_were_from_the_older(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    office = await say(engine, caller, "The canteen is closed on Mondays")
    await say(engine, caller, "Ada likes tea", links=[Link(office, Relation.CAUSED_BY)])
    clock.advance(A_DAY)
    await say(engine, caller, "Ada likes tea")

    await maintain(engine, caller)

    found = await search(engine, caller, Search(query="Ada likes tea"))
    assert [finding.memory.content for finding in found.findings] == [
        "Ada likes tea",
        "The canteen is closed on Mondays",
    ]


async def test_maintenance_run_once_leaves_what_ten_times_leave_after_merging_too(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    place = await say(engine, caller, "The office is in Oslo")
    for importance in (0.9, 0.3, 0.5):
        link = Link(place, Relation.PART_OF)
        await say(engine, caller, importance=importance, links=[link])
        await recall(engine, caller)
        clock.advance(A_DAY)

    await maintain(engine, caller)
    once = await rows(engine, caller)
    for _ in range(9):
        await maintain(engine, caller)

    assert await rows(engine, caller) == once


async def test_what_was_merged_comes_back_and_stays_and_no_use_counts_twice(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await say(engine, caller)
    await recall(engine, caller)
    clock.advance(A_DAY)
    newer = await say(engine, caller)
    await maintain(engine, caller)
    merged = await findings(engine, caller)

    await restore(engine, caller, older)
    for _ in range(3):
        await maintain(engine, caller)
        clock.advance(A_DAY)

    assert set(merged) == {newer.id}
    found = await findings(engine, caller)
    assert set(found) == {older.id, newer.id}
    assert sum(finding.memory.access_count for finding in found.values()) == 1
    done, _ = await list_events(engine, caller, ListEvents(limit=10))
    acts = [event.action for event in done if event.action != "memory.created"]
    assert sorted(acts) == ["memory.forgotten", "memory.restored"]


async def test_what_came_back_is_merged_when_it_is_said_once_more(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await say(engine, caller)
    clock.advance(A_DAY)
    await say(engine, caller)
    await maintain(engine, caller)
    await restore(engine, caller, older)
    clock.advance(A_DAY)
    newest = await say(engine, caller)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newest.id}


# Worn out.


async def test_what_was_kept_today_is_not_worn_out_today_however_long_ago_it_was_said(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    said = await say(engine, caller, importance=0.2, said_at=datetime(2023, 5, 1, tzinfo=UTC))

    await maintain(engine, caller)
    today = await get(engine, caller, said)
    clock.advance(LONG)
    await maintain(engine, caller)

    assert today.importance == 0.2
    with pytest.raises(NotFound):
        await get(engine, caller, said)


async def test_what_was_kept_today_keeps_the_one_it_is_merged_into_from_wearing_out(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    newer = await say(engine, caller, importance=0.1)
    clock.advance(LONG)
    await say(engine, caller, importance=0.1, said_at=datetime(2023, 5, 1, tzinfo=UTC))

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}


async def test_what_was_brought_back_today_is_not_worn_out_today(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    milk = await say(engine, caller, "buy milk", category="todo", importance=0.1)
    clock.advance(LONG)
    await maintain(engine, caller)
    await restore(engine, caller, milk)

    await maintain(engine, caller)
    restored = await get(engine, caller, milk)
    clock.advance(LONG)
    await maintain(engine, caller)

    assert restored.content == "buy milk"
    with pytest.raises(NotFound):
        await get(engine, caller, milk)


# While somebody else is at work.


async def run_into(engine: Engine, caller: Caller, db: Db) -> "asyncio.Task[None]":
    """Maintenance, begun while a transaction is under way, until it is done or has to wait."""
    # Not what the driver was told: a pooler tells a number of its own making.
    held_by = await (await db.execute("SELECT pg_backend_pid()")).fetchone()
    assert held_by
    running = asyncio.create_task(maintain(engine, caller))

    async def is_there() -> bool:
        async with engine.pool.everywhere() as other:
            found = await other.execute(
                "SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))",
                held_by,
            )
        return running.done() or bool(found.rowcount)

    await until(is_there)
    return running


async def test_what_is_being_pinned_is_not_hidden(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    milk = await say(engine, caller, "buy milk", category="todo", importance=0.1)
    clock.advance(LONG)

    async with engine.writing(caller) as db:
        await memories.lock(db, caller, milk)
        before = await memories.find(db, caller, milk, clock.at)
        assert before
        await change_within(engine, db, caller, before, Change(pinned=True), None)
        running = await run_into(engine, caller, db)
    await running

    assert (await get(engine, caller, milk)).pinned


async def test_what_is_being_corrected_is_not_hidden_for_the_words_it_had(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    # At the same moment, so that merging is all there is to do.
    ends = [await say(engine, caller), await say(engine, caller)]
    older, newer = sorted(ends, key=lambda end: str(end.id))

    async with engine.writing(caller) as db:
        await memories.lock(db, caller, older)
        before = await memories.find(db, caller, older, clock.at)
        assert before
        await change_within(engine, db, caller, before, Change(content="Ada likes coffee"), None)
        running = await run_into(engine, caller, db)
    await running

    found = await findings(engine, caller)
    assert set(found) == {older.id, newer.id}


async def test_what_is_said_again_by_one_that_is_being_forgotten_stays(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await say(engine, caller)
    clock.advance(A_DAY)
    newer = await say(engine, caller)

    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, newer)
        running = await run_into(engine, caller, db)
    await running

    assert set(await findings(engine, caller)) == {older.id}


async def test_what_was_changed_or_recalled_since_it_was_read_is_left_for_the_next_time(
    engine: Engine, caller: Caller
) -> None:
    pinned = await say(engine, caller, "one")
    recalled = await say(engine, caller, "two")
    same = await say(engine, caller, "three")

    async with engine.writing(caller) as db:
        read = await wear.wearing(db, caller.workspace_id, after=UUID(int=0), limit=10)
        await change(engine, caller, pinned, Change(pinned=True))
        await memories.touch(engine.pool, caller.workspace_id, [recalled.id], engine.now())  # pyright: ignore[reportArgumentType]
        held = await wear.hold_unchanged(db, caller.workspace_id, read)

    assert len(read) == 3
    assert held == {same.id}
