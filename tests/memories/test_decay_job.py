"""Maintenance forgets decayed and repeated memories, without losing or contradicting anything."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from recollect.conversations.traces import ListEvents, list_events
from recollect.core.domain import Caller, Ref, Relation, View
from recollect.core.errors import NotFound
from recollect.db.pool import Db
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine
from recollect.memories.decay_job import run_decay
from recollect.memories.edit import EditMemory, edit, edit_within, find_memory
from recollect.memories.forget import forget, forget_within, restore
from recollect.memories.links import Link
from recollect.memories.queries import decay, memories
from recollect.memories.save import Save, save
from recollect.search.hybrid import Search, SearchHit, SearchMode, search
from tests.support.clock import Clock
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
LONG_AGO = timedelta(days=100)


async def save_statement(
    engine: Engine, caller: Caller, text: str = "Ada likes tea", **options: Any
) -> Ref:
    defaults: dict[str, Any] = {"lifecycle": "decaying", "category": "fact"}
    saved = await save(engine, caller, Save(text, **(defaults | options)))
    return Ref(id=saved.memory.id)


async def maintain(engine: Engine, caller: Caller) -> None:
    await run_decay(engine, caller.workspace_id, no_heartbeat)


async def findings(
    engine: Engine, caller: Caller, view: View | None = None
) -> dict[UUID, SearchHit]:
    ask = Search(mode=SearchMode.RECENT, limit=50, view=view or View(), counts_as_access=False)
    found = await search(engine, caller, ask)
    return {finding.memory.id: finding for finding in found.findings}


async def recall(engine: Engine, caller: Caller) -> None:
    await search(engine, caller, Search(mode=SearchMode.RECENT, limit=50))


async def rows(engine: Engine, caller: Caller) -> list[dict[str, Any]]:
    """Return every row of `memory` and `association` in the workspace."""
    async with engine.reading(caller) as db, db.cursor(row_factory=dict_row) as cursor:
        values = [caller.workspace_id]
        await cursor.execute("SELECT * FROM memory WHERE workspace_id = %s ORDER BY id", values)
        stored = await cursor.fetchall()
        await cursor.execute(
            "SELECT * FROM memory_link WHERE workspace_id = %s"
            " ORDER BY source_id, target_id, relation",
            values,
        )
        return stored + await cursor.fetchall()


# Repeated statements.


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
async def test_equal_texts_with_different_attributes_are_not_merged(
    engine: Engine, caller: Caller, clock: Clock, other: dict[str, Any]
) -> None:
    memory_refs = [await save_statement(engine, caller)]
    clock.advance(DAY)
    memory_refs.append(await save_statement(engine, caller, **other))

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {ref.id for ref in memory_refs}


async def test_a_lasting_statement_outlives_an_expiring_repetition(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    permanent = await save_statement(engine, caller)
    clock.advance(DAY)
    await save_statement(engine, caller, expires_at=clock.at + DAY)
    await maintain(engine, caller)
    clock.advance(2 * DAY)

    assert set(await findings(engine, caller)) == {permanent.id}


async def test_an_event_is_merged_only_within_the_same_day(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    event: dict[str, Any] = {"text": "Went to the gym", "category": "event"}
    monday = await save_statement(engine, caller, **event)
    clock.advance(2 * DAY)
    await save_statement(engine, caller, **event)
    clock.advance(timedelta(hours=1))
    wednesday = await save_statement(engine, caller, **event)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {monday.id, wednesday.id}


async def test_the_newest_takes_over_importance_accesses_and_validity(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await save_statement(engine, caller, importance=0.9)
    await recall(engine, caller)
    then = clock.at
    clock.advance(DAY)
    newer = await save_statement(engine, caller, importance=0.4)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}
    stored = await find_memory(engine, caller, newer)
    assert stored.importance_base == 0.9
    assert stored.importance > 0.9
    assert (stored.access_count, stored.last_accessed_at) == (1, then)
    assert set(await findings(engine, caller, View(as_of=then))) == {newer.id}


async def test_a_merged_statement_inherits_recent_use_and_is_not_pruned(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await save_statement(engine, caller, importance=0.1)
    clock.advance(DAY)
    newer = await save_statement(engine, caller, importance=0.1, wants_vector=False)
    clock.advance(LONG_AGO)
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE memory SET last_accessed_at = %s, access_count = 1"
            " WHERE workspace_id = %s AND id <> %s",
            [clock.at, caller.workspace_id, newer.id],
        )

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}


async def test_a_dependent_memory_depends_on_the_newer_repetition(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    cause = await save_statement(engine, caller, "The office is in Oslo")
    tram = await save_statement(
        engine, caller, "Ana takes tram 12", links=[Link(cause, Relation.RESULT_OF)]
    )
    clock.advance(DAY)
    again = await save_statement(engine, caller, "The office is in Oslo")

    await maintain(engine, caller)
    merged = await findings(engine, caller)
    await forget(engine, caller, again)
    forgotten = await findings(engine, caller)

    assert {each: finding.is_doubted for each, finding in merged.items()} == {
        tram.id: False,
        again.id: False,
    }
    assert {each: finding.is_doubted for each, finding in forgotten.items()} == {tram.id: True}


async def test_a_dependency_on_a_decayed_statement_causes_no_doubt(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    cause = await save_statement(engine, caller, "The office is in Oslo", importance=0.05)
    tram = await save_statement(
        engine,
        caller,
        "Ana takes tram 12",
        lifecycle="permanent",
        links=[Link(cause, Relation.RESULT_OF)],
    )
    clock.advance(LONG_AGO)

    await maintain(engine, caller)

    found = await findings(engine, caller)
    assert {each: finding.is_doubted for each, finding in found.items()} == {tram.id: False}


async def test_links_are_followed_from_the_newest_repetition(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    office = await save_statement(engine, caller, "The canteen is closed on Mondays")
    await save_statement(engine, caller, "Ada likes tea", links=[Link(office, Relation.CAUSED_BY)])
    clock.advance(DAY)
    await save_statement(engine, caller, "Ada likes tea")

    await maintain(engine, caller)

    found = await search(engine, caller, Search(query="Ada likes tea"))
    assert [finding.memory.content for finding in found.findings] == [
        "Ada likes tea",
        "The canteen is closed on Mondays",
    ]


async def test_running_maintenance_again_after_a_merge_changes_nothing(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    office = await save_statement(engine, caller, "The office is in Oslo")
    for importance in (0.9, 0.3, 0.5):
        link = Link(office, Relation.PART_OF)
        await save_statement(engine, caller, importance=importance, links=[link])
        await recall(engine, caller)
        clock.advance(DAY)

    await maintain(engine, caller)
    once = await rows(engine, caller)
    for _ in range(9):
        await maintain(engine, caller)

    assert await rows(engine, caller) == once


async def test_a_restored_merged_memory_stays_and_accesses_count_once(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await save_statement(engine, caller)
    await recall(engine, caller)
    clock.advance(DAY)
    newer = await save_statement(engine, caller)
    await maintain(engine, caller)
    merged = await findings(engine, caller)

    await restore(engine, caller, older)
    for _ in range(3):
        await maintain(engine, caller)
        clock.advance(DAY)

    assert set(merged) == {newer.id}
    found = await findings(engine, caller)
    assert set(found) == {older.id, newer.id}
    assert sum(finding.memory.access_count for finding in found.values()) == 1
    events, _ = await list_events(engine, caller, ListEvents(limit=10))
    actions = [event.action for event in events if event.action != "memory.created"]
    assert sorted(actions) == ["memory.forgotten", "memory.restored"]


async def test_a_restored_memory_is_merged_when_it_is_repeated_again(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await save_statement(engine, caller)
    clock.advance(DAY)
    await save_statement(engine, caller)
    await maintain(engine, caller)
    await restore(engine, caller, older)
    clock.advance(DAY)
    newest = await save_statement(engine, caller)

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newest.id}


# Decayed memories.


async def test_an_old_statement_saved_today_is_not_pruned_today(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    said = await save_statement(
        engine, caller, importance=0.2, said_at=datetime(2023, 5, 1, tzinfo=UTC)
    )

    await maintain(engine, caller)
    today = await find_memory(engine, caller, said)
    clock.advance(LONG_AGO)
    await maintain(engine, caller)

    assert today.importance == 0.2
    with pytest.raises(NotFound):
        await find_memory(engine, caller, said)


async def test_merging_a_memory_saved_today_prevents_pruning(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    newer = await save_statement(engine, caller, importance=0.1)
    clock.advance(LONG_AGO)
    await save_statement(engine, caller, importance=0.1, said_at=datetime(2023, 5, 1, tzinfo=UTC))

    await maintain(engine, caller)

    assert set(await findings(engine, caller)) == {newer.id}


async def test_a_memory_restored_today_is_not_pruned_today(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    milk = await save_statement(engine, caller, "buy milk", category="todo", importance=0.1)
    clock.advance(LONG_AGO)
    await maintain(engine, caller)
    await restore(engine, caller, milk)

    await maintain(engine, caller)
    restored = await find_memory(engine, caller, milk)
    clock.advance(LONG_AGO)
    await maintain(engine, caller)

    assert restored.content == "buy milk"
    with pytest.raises(NotFound):
        await find_memory(engine, caller, milk)


# Concurrent changes.


async def start_maintenance(engine: Engine, caller: Caller, db: Db) -> "asyncio.Task[None]":
    """Start maintenance during an open transaction, and wait until it is done or blocked."""
    # Not the pid that the driver reports: with a pooler, that is the pooler's own number.
    backend_pid = await (await db.execute("SELECT pg_backend_pid()")).fetchone()
    assert backend_pid
    running = asyncio.create_task(maintain(engine, caller))

    async def is_done_or_blocked() -> bool:
        async with engine.pool.everywhere() as other:
            found = await other.execute(
                "SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))",
                backend_pid,
            )
        return running.done() or bool(found.rowcount)

    await until(is_done_or_blocked)
    return running


async def test_a_memory_being_pinned_is_not_forgotten(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    milk = await save_statement(engine, caller, "buy milk", category="todo", importance=0.1)
    clock.advance(LONG_AGO)

    async with engine.writing(caller) as db:
        await memories.lock(db, caller, milk)
        before = await memories.find(db, caller, milk, clock.at)
        assert before
        await edit_within(engine, db, caller, before, EditMemory(pinned=True), None)
        running = await start_maintenance(engine, caller, db)
    await running

    assert (await find_memory(engine, caller, milk)).pinned


async def test_a_memory_being_edited_is_not_merged_by_its_old_text(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    # Saved at the same moment, so that merging is all there is to do.
    memory_refs = [await save_statement(engine, caller), await save_statement(engine, caller)]
    older, newer = sorted(memory_refs, key=lambda ref: str(ref.id))

    async with engine.writing(caller) as db:
        await memories.lock(db, caller, older)
        before = await memories.find(db, caller, older, clock.at)
        assert before
        await edit_within(engine, db, caller, before, EditMemory(content="Ada likes coffee"), None)
        running = await start_maintenance(engine, caller, db)
    await running

    found = await findings(engine, caller)
    assert set(found) == {older.id, newer.id}


async def test_a_memory_whose_repetition_is_being_forgotten_stays(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    older = await save_statement(engine, caller)
    clock.advance(DAY)
    newer = await save_statement(engine, caller)

    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, newer)
        running = await start_maintenance(engine, caller, db)
    await running

    assert set(await findings(engine, caller)) == {older.id}


async def test_memories_changed_or_recalled_after_reading_are_skipped(
    engine: Engine, caller: Caller
) -> None:
    pinned = await save_statement(engine, caller, "one")
    recalled = await save_statement(engine, caller, "two")
    same = await save_statement(engine, caller, "three")

    async with engine.writing(caller) as db:
        read = await decay.decaying_memories(db, caller.workspace_id, after=UUID(int=0), limit=10)
        await edit(engine, caller, pinned, EditMemory(pinned=True))
        await memories.touch(engine.pool, caller.workspace_id, [recalled.id], engine.now())  # pyright: ignore[reportArgumentType]
        locked = await decay.lock_unchanged(db, caller.workspace_id, read)

    assert len(read) == 3
    assert locked == {same.id}
