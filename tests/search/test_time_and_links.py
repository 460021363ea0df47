"""Links and time: superseding a memory, reading an earlier state, and undoing a change."""

import asyncio
from datetime import timedelta

import pytest

from recollect.core.domain import Caller, MemoryId, Ref, Relation, View
from recollect.core.errors import Invalid, NotFound
from recollect.db.pool import Db
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine
from recollect.memories.decay_job import run_decay
from recollect.memories.edit import find_memory
from recollect.memories.forget import forget, remove_rows, restore
from recollect.memories.links import Link, link, reopen, unlink
from recollect.memories.queries import links, memories
from recollect.memories.save import Save, save
from recollect.search.hybrid import Search, SearchMode, SearchResults, search
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import new_caller, wait_until_blocked

pytestmark = pytest.mark.anyio


def contents(found: SearchResults) -> list[str]:
    return [finding.memory.content for finding in found.findings]


async def save_text(engine: Engine, caller: Caller, text: str, **options: object) -> Ref:
    saved = await save(engine, caller, Save(text, **options))  # pyright: ignore[reportArgumentType]
    return Ref(id=saved.memory.id)


async def current(engine: Engine, caller: Caller, view: View | None = None) -> list[str]:
    ask = Search(mode=SearchMode.RECENT, limit=50, view=view or View())
    return sorted(contents(await search(engine, caller, ask)))


async def locked(db: Db, caller: Caller, ref: Ref) -> MemoryId:
    """Lock the row of a memory, as every change of it does."""
    memory_id = await memories.lock(db, caller, ref)
    assert memory_id
    return memory_id


async def test_an_authored_update_ends_the_older_statement_until_it_is_undone(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    oslo = await save_text(engine, caller, "Ana lives in Oslo")
    clock.advance(timedelta(days=7))
    await save_text(engine, caller, "Ana moved to Bergen", links=[Link(oslo, Relation.UPDATES)])
    clock.advance(timedelta(days=1))

    now = await current(engine, caller)
    last_week = await current(engine, caller, View(as_of=clock.at - timedelta(days=5)))
    history = await current(engine, caller, View(is_history=True))
    await reopen(engine, caller, oslo)

    assert now == ["Ana moved to Bergen"]
    assert last_week == ["Ana lives in Oslo"]
    assert history == ["Ana lives in Oslo", "Ana moved to Bergen"]
    assert await current(engine, caller) == ["Ana lives in Oslo", "Ana moved to Bergen"]


async def test_R245_a_similarity_link_leaves_both_memories_current(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {"Ana lives in Oslo": at_cosine(1.0), "Ben lives in Oslo": at_cosine(0.95)}
    ana = await save_text(engine, caller, "Ana lives in Oslo", links_similar=True)
    ben = await save_text(engine, caller, "Ben lives in Oslo", links_similar=True)

    async with engine.reading(caller) as db:
        assert ana.id
        assert ben.id
        found = await links.links_of(db, caller, [ana.id], limit=10, now=engine.now())  # pyright: ignore[reportArgumentType]

    assert [
        (each.source_id, each.target_id, each.relation, each.is_authored) for each in found
    ] == [(ben.id, ana.id, Relation.UPDATES, False)]
    assert await current(engine, caller) == ["Ana lives in Oslo", "Ben lives in Oslo"]


async def test_S48_links_never_cross_workspaces(engine: Engine, caller: Caller) -> None:
    outsider = await new_caller(engine)
    theirs = await save_text(engine, outsider, "theirs")
    ours = await save_text(
        engine, caller, "ours", links=[Link(theirs, Relation.UPDATES)], links_similar=True
    )

    with pytest.raises(NotFound):
        await link(engine, caller, ours, Link(theirs))
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT count(*) FROM memory_link WHERE source_id = %s", [ours.id]
        )
        assert await cursor.fetchone() == (0,)
    assert await current(engine, outsider) == ["theirs"]


async def test_N40_the_same_link_again_overwrites_its_weight(
    engine: Engine, caller: Caller
) -> None:
    one, other = await save_text(engine, caller, "one"), await save_text(engine, caller, "other")
    await link(engine, caller, one, Link(other, weight=0.3))

    await link(engine, caller, one, Link(other, weight=0.9))

    async with engine.reading(caller) as db:
        found = await links.links_of(db, caller, [one.id], limit=10, now=engine.now())  # pyright: ignore[reportArgumentType]
    assert [(each.weight, each.is_authored) for each in found] == [(0.9, True)]


async def test_a_save_succeeds_while_a_similar_memory_is_deleted(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {"old": at_cosine(1.0), "new": at_cosine(0.95)}
    old = await save_text(engine, caller, "old")
    stays = await save_text(engine, caller, "something else")
    links_wanted = [Link(old, Relation.CAUSED_BY), Link(stays, Relation.PART_OF)]

    async with engine.writing(caller) as db:
        await remove_rows(engine, db, caller, [await locked(db, caller, old)])
        saving = asyncio.create_task(
            save_text(engine, caller, "new", links=links_wanted, links_similar=True)
        )
        await wait_until_blocked(engine)
    new = await saving

    assert await current(engine, caller) == ["new", "something else"]
    async with engine.reading(caller) as db:
        found = await links.links_of(db, caller, [new.id], limit=10, now=engine.now())  # pyright: ignore[reportArgumentType]
    assert [(each.target_id, each.relation) for each in found] == [(stays.id, Relation.PART_OF)]


@pytest.mark.parametrize("gone", ["source", "target"])
async def test_linking_a_memory_that_is_being_deleted_fails_with_not_found(
    engine: Engine, caller: Caller, gone: str
) -> None:
    ends = {
        "source": await save_text(engine, caller, "one"),
        "target": await save_text(engine, caller, "two"),
    }

    async with engine.writing(caller) as db:
        await remove_rows(engine, db, caller, [await locked(db, caller, ends[gone])])
        linking = asyncio.create_task(link(engine, caller, ends["source"], Link(ends["target"])))
        await wait_until_blocked(engine)

    with pytest.raises(NotFound):
        await linking


async def test_unlinking_an_update_makes_the_older_statement_current_again(
    engine: Engine, caller: Caller
) -> None:
    oslo = await save_text(engine, caller, "Ana lives in Oslo")
    bergen = await save_text(
        engine, caller, "Ana is in Bergen", links=[Link(oslo, Relation.UPDATES)]
    )

    await unlink(engine, caller, bergen, oslo, Relation.UPDATES)

    assert await current(engine, caller) == ["Ana is in Bergen", "Ana lives in Oslo"]


async def test_a_memory_is_not_linked_to_itself(engine: Engine, caller: Caller) -> None:
    one = await save_text(engine, caller, "one")

    with pytest.raises(Invalid):
        await link(engine, caller, one, Link(one))


async def test_a_memory_based_on_a_replaced_statement_is_flagged(
    engine: Engine, caller: Caller
) -> None:
    cause = await save_text(engine, caller, "The office is in Oslo")
    await save_text(engine, caller, "Ana takes tram 12", links=[Link(cause, Relation.CAUSED_BY)])
    before = await search(engine, caller, Search(mode=SearchMode.RECENT))
    await save_text(
        engine, caller, "The office is in Bergen", links=[Link(cause, Relation.UPDATES)]
    )

    after = await search(engine, caller, Search(mode=SearchMode.RECENT))

    assert [finding.is_doubted for finding in before.findings] == [False, False]
    assert {finding.memory.content: finding.is_doubted for finding in after.findings} == {
        "Ana takes tram 12": True,
        "The office is in Bergen": False,
    }


async def test_a_forgotten_memory_is_restored_with_its_words_and_vector(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    tea = await save_text(engine, caller, "Ada takes her tea without milk")
    await forget(engine, caller, tea)

    restored = await restore(engine, caller, tea)

    assert restored.has_vector
    assert contents(await search(engine, caller, Search(query="tea milk"))) == [
        "Ada takes her tea without milk"
    ]
    with pytest.raises(NotFound):
        await restore(engine, caller, tea)


async def importances(engine: Engine, caller: Caller) -> dict[str, float]:
    found = await search(
        engine, caller, Search(mode=SearchMode.RECENT, limit=50, counts_as_access=False)
    )
    return {finding.memory.content: finding.memory.importance for finding in found.findings}


async def test_maintenance_run_once_or_many_times_leaves_the_same_rows(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    for number in range(5):
        await save_text(engine, caller, f"fact {number}", lifecycle="decaying", category="fact")
        clock.advance(timedelta(days=number))
    clock.advance(timedelta(days=1))

    await run_decay(engine, caller.workspace_id, no_heartbeat)
    once = await importances(engine, caller)
    for _ in range(10):
        await run_decay(engine, caller.workspace_id, no_heartbeat)

    assert await importances(engine, caller) == once
    assert once["fact 0"] < once["fact 4"] < 0.5


async def test_R246_R247_identity_pinned_and_permanent_memories_never_decay(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await save_text(engine, caller, "She is called Ada", lifecycle="decaying", category="identity")
    await save_text(engine, caller, "pinned", lifecycle="decaying", category="todo", pinned=True)
    await save_text(engine, caller, "permanent", category="todo")
    await save_text(
        engine, caller, "buy milk", lifecycle="decaying", category="todo", importance=0.15
    )
    before = await importances(engine, caller)

    for _ in range(40):
        clock.advance(timedelta(days=10))
        await run_decay(engine, caller.workspace_id, no_heartbeat)

    after = await importances(engine, caller)
    assert "buy milk" not in after
    assert after == {text: value for text, value in before.items() if text != "buy milk"}


async def test_pruning_hides_and_can_be_undone(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    milk = await save_text(
        engine, caller, "buy milk", lifecycle="decaying", category="todo", importance=0.1
    )
    clock.advance(timedelta(days=100))
    await run_decay(engine, caller.workspace_id, no_heartbeat)

    with pytest.raises(NotFound):
        await find_memory(engine, caller, milk)
    restored = await restore(engine, caller, milk)
    assert restored.content == "buy milk"


async def test_repeated_statements_are_merged_into_the_newest(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await save_text(engine, caller, "Ada likes tea", lifecycle="decaying", category="fact")
    clock.advance(timedelta(days=1))
    newest = await save_text(
        engine, caller, "Ada likes tea.", lifecycle="decaying", category="fact"
    )

    await run_decay(engine, caller.workspace_id, no_heartbeat)

    found = await search(engine, caller, Search(mode=SearchMode.RECENT))
    assert [finding.memory.id for finding in found.findings] == [newest.id]


async def test_concurrent_recalls_of_the_same_memories_all_succeed_and_count(
    engine: Engine, caller: Caller
) -> None:
    for number in range(30):
        await save_text(engine, caller, f"fact {number}")
    orders = [
        Search(mode=mode, limit=30) for mode in (SearchMode.RECENT, SearchMode.IMPORTANT)
    ] * 20

    await asyncio.gather(*(search(engine, caller, ask) for ask in orders))

    found = await search(
        engine, caller, Search(mode=SearchMode.RECENT, limit=30, counts_as_access=False)
    )
    assert [finding.memory.access_count for finding in found.findings] == [40] * 30
