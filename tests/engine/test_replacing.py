"""What replaces what, and what is true again when that is taken back."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from recollect.domain import Caller, MemoryId, Ref, Relation, Scope, View
from recollect.engine.audit import ListEvents, list_events
from recollect.engine.change import get
from recollect.engine.channels import Channel
from recollect.engine.core import Engine
from recollect.engine.erase import erase
from recollect.engine.erase_targets import Kind, Target
from recollect.engine.forget import forget, remove, restore
from recollect.engine.link import Link, link, reopen, unlink
from recollect.engine.save import Save, save
from recollect.engine.search import Mode, Search, search
from recollect.engine.spaces import no_beat
from recollect.engine.wear import wear_down
from recollect.store import links, memories
from recollect.store.migrate import migrations
from recollect.store.wear import WORN_OUT
from tests.support.alumia import colleague
from tests.support.clock import Clock
from tests.support.house import until_blocked

pytestmark = pytest.mark.anyio

Letting = Callable[[Engine, Caller, Ref], Coroutine[object, object, object]]

A_DAY = timedelta(days=1)


async def say(engine: Engine, caller: Caller, text: str, **options: object) -> Ref:
    saved = await save(engine, caller, Save(text, **options))  # pyright: ignore[reportArgumentType]
    return Ref(id=saved.memory.id)


async def replace(
    engine: Engine, caller: Caller, clock: Clock, old: Ref, text: str, **options: object
) -> Ref:
    """Say a day later what replaces a statement."""
    clock.advance(A_DAY)
    return await say(engine, caller, text, links=[Link(old, Relation.UPDATES)], **options)


async def current(engine: Engine, caller: Caller, view: View | None = None) -> list[str]:
    ask = Search(mode=Mode.RECENT, limit=50, view=view or View(), counts_as_access=False)
    found = await search(engine, caller, ask)
    return sorted(finding.memory.content for finding in found.findings)


@asynccontextmanager
async def while_all_wait(
    engine: Engine, caller: Caller, *acts: Coroutine[object, object, object]
) -> AsyncGenerator[None]:
    """Let these begin in their order, each as far as it comes while somebody else has the turn."""
    async with engine.writing(caller) as db:
        await links.take_turn(db, caller.workspace_id)
        acting: list[asyncio.Task[object]] = []
        for act in acts:
            acting.append(asyncio.create_task(act))
            await until_blocked(engine, len(acting))
        yield
    await asyncio.gather(*acting)


@pytest.mark.parametrize("let_go", [forget, remove])
async def test_what_a_correction_had_replaced_is_current_again_when_it_goes(
    engine: Engine, caller: Caller, clock: Clock, let_go: Letting
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")

    await let_go(engine, caller, berlin)

    assert await current(engine, caller) == ["Ana lives in Paris"]
    again = await get(engine, caller, paris)
    assert (again.valid_until, again.superseded_by) == (None, None)


async def test_a_correction_that_is_brought_back_replaces_again_from_when_it_did(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    before = await get(engine, caller, paris)
    clock.advance(A_DAY)
    await forget(engine, caller, berlin)
    clock.advance(A_DAY)

    await restore(engine, caller, berlin)

    assert await current(engine, caller) == ["Ana lives in Berlin"]
    after = await get(engine, caller, paris)
    assert (after.valid_until, after.superseded_by) == (before.valid_until, berlin.id)
    then = View(as_of=clock.at - 3 * A_DAY)
    assert await current(engine, caller, then) == ["Ana lives in Paris"]


@pytest.mark.parametrize("let_go", [forget, remove])
async def test_what_two_statements_replace_stays_replaced_when_one_of_them_goes(
    engine: Engine, caller: Caller, clock: Clock, let_go: Letting
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, paris, "Ana lives in Rome")

    await let_go(engine, caller, berlin)

    assert await current(engine, caller) == ["Ana lives in Rome"]
    old = await get(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (clock.at, rome.id)


@pytest.mark.parametrize("let_go", [forget, remove])
async def test_who_lets_go_of_the_second_of_three_statements_does_not_mean_the_first(
    engine: Engine, caller: Caller, clock: Clock, let_go: Letting
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, berlin, "Ana lives in Rome")

    await let_go(engine, caller, berlin)
    without_the_second = await current(engine, caller)
    await let_go(engine, caller, rome)

    assert without_the_second == ["Ana lives in Rome"]
    assert await current(engine, caller) == ["Ana lives in Paris"]


async def test_who_gave_back_the_first_of_three_finds_it_replaced_by_the_second_again(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, berlin, "Ana lives in Rome")
    await forget(engine, caller, berlin)
    await forget(engine, caller, rome)

    await restore(engine, caller, berlin)

    assert await current(engine, caller) == ["Ana lives in Berlin"]
    assert (await get(engine, caller, paris)).superseded_by == berlin.id


async def test_a_replacement_made_the_wrong_way_round_can_be_put_right(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    new = await say(engine, caller, "Ana lives in Berlin")
    old = await say(engine, caller, "Ana lives in Paris")
    await link(engine, caller, old, Link(new, Relation.UPDATES))
    clock.advance(A_DAY)

    await link(engine, caller, new, Link(old, Relation.UPDATES))

    assert await current(engine, caller) == ["Ana lives in Berlin"]
    await forget(engine, caller, new)
    assert await current(engine, caller) == ["Ana lives in Paris"]


async def test_of_statements_that_replace_each_other_in_a_ring_the_last_word_holds(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    first, second, third = [await say(engine, caller, name) for name in ("one", "two", "three")]
    await link(engine, caller, first, Link(second, Relation.UPDATES))
    clock.advance(A_DAY)
    await link(engine, caller, second, Link(third, Relation.UPDATES))
    clock.advance(A_DAY)

    await link(engine, caller, third, Link(first, Relation.UPDATES))

    assert await current(engine, caller) == ["three"]


async def test_of_two_who_say_the_opposite_at_once_one_is_right(
    engine: Engine, caller: Caller
) -> None:
    paris, berlin = await say(engine, caller, "Paris"), await say(engine, caller, "Berlin")

    async with engine.writing(caller) as db:
        for each in (paris, berlin):
            assert await memories.lock(db, caller, each)
        linking = [
            asyncio.create_task(link(engine, caller, one, Link(other, Relation.UPDATES)))
            for one, other in ((paris, berlin), (berlin, paris))
        ]
        await until_blocked(engine, 2)
    await asyncio.gather(*linking)

    assert await current(engine, caller) in (["Paris"], ["Berlin"])


async def test_of_what_two_link_to_a_ring_at_once_something_stays_current(
    engine: Engine, caller: Caller
) -> None:
    """No memory is in both links, so that neither sees the other by holding memories."""
    one, two, three, four = [await say(engine, caller, name) for name in ("1", "2", "3", "4")]
    await link(engine, caller, one, Link(two, Relation.UPDATES))
    await link(engine, caller, three, Link(four, Relation.UPDATES))

    async with while_all_wait(
        engine,
        caller,
        link(engine, caller, two, Link(three, Relation.UPDATES)),
        link(engine, caller, four, Link(one, Relation.UPDATES)),
    ):
        pass

    assert await current(engine, caller) == ["4"]


async def test_of_three_statements_the_two_later_may_be_forgotten_at_once(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, berlin, "Ana lives in Rome")

    async with while_all_wait(
        engine, caller, forget(engine, caller, rome), forget(engine, caller, berlin)
    ):
        pass

    assert await current(engine, caller) == ["Ana lives in Paris"]


@pytest.mark.parametrize("let_go", [forget, remove])
async def test_who_forgets_and_who_links_the_same_two_at_once_do_not_wait_for_each_other(
    engine: Engine, caller: Caller, clock: Clock, let_go: Letting
) -> None:
    """In whichever order their memories are held: a ring of waiting would fail one of them."""
    for _ in range(4):
        paris = await say(engine, caller, "Ana lives in Paris")
        berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
        rome = await say(engine, caller, "Ana lives in Rome")
        async with while_all_wait(
            engine,
            caller,
            link(engine, caller, rome, Link(paris, Relation.UPDATES)),
            let_go(engine, caller, berlin),
        ):
            pass
        assert await current(engine, caller) == ["Ana lives in Rome"]
        await remove(engine, caller, rome)
        await remove(engine, caller, paris)


@pytest.mark.parametrize("scope", [Scope.GLOBAL, Scope.THREAD])
async def test_what_few_see_ends_nothing_that_all_see(
    engine: Engine, caller: Caller, clock: Clock, scope: Scope
) -> None:
    stranger = await colleague(engine, caller)
    shared = await say(engine, stranger, "The office opens at nine")
    channel = Channel("mine") if scope is Scope.THREAD else None
    own = await replace(
        engine, caller, clock, shared, "The office opens at ten", scope=scope, channel=channel
    )

    assert await current(engine, stranger) == ["The office opens at nine"]
    assert (await get(engine, stranger, shared)).superseded_by is None
    await forget(engine, caller, own) if scope is Scope.GLOBAL else None
    shared_too = await replace(engine, caller, clock, shared, "The office opens at eight")
    assert (await get(engine, stranger, shared)).superseded_by == shared_too.id


async def test_what_was_ended_so_before_is_current_again_after_the_upgrade(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    kept = await say(engine, caller, "The office opens at nine")
    own = await replace(engine, caller, clock, kept, "It opens at ten", scope=Scope.GLOBAL)
    tea = await say(engine, caller, "I like tea", scope=Scope.GLOBAL)
    coffee = await replace(engine, caller, clock, tea, "I like coffee", scope=Scope.GLOBAL)
    [upgrade] = [each for each in migrations() if each.number == 29]
    async with engine.pool.everywhere() as db:
        await db.execute(
            "UPDATE memory SET superseded_by = %s, valid_until = %s WHERE id = %s",
            [own.id, clock.at, kept.id],
        )
        await db.execute(upgrade.text.encode())

    assert (await get(engine, caller, kept)).valid_until is None
    assert (await get(engine, caller, tea)).superseded_by == coffee.id


async def test_what_one_person_sees_ends_what_only_they_see(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    tea = await say(engine, caller, "I like tea", scope=Scope.GLOBAL)
    await replace(engine, caller, clock, tea, "I like coffee", scope=Scope.GLOBAL)

    assert await current(engine, caller) == ["I like coffee"]


async def test_a_statement_ends_when_the_word_that_still_ends_it_was_said(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    """By two ways from the same memory: directly, and behind one that is forgotten."""
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, berlin, "Ana lives in Rome")
    since = clock.at
    await forget(engine, caller, berlin)
    assert (await get(engine, caller, paris)).valid_until == since
    clock.advance(A_DAY)
    await link(engine, caller, rome, Link(paris, Relation.UPDATES))
    await remove(engine, caller, berlin)
    await unlink(engine, caller, rome, paris, Relation.UPDATES)
    clock.advance(A_DAY)

    await link(engine, caller, rome, Link(paris, Relation.UPDATES))

    old = await get(engine, caller, paris)
    assert (old.superseded_by, old.valid_until) == (rome.id, clock.at)


async def test_a_correction_that_is_merely_worn_out_does_not_make_the_old_statement_true(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(
        engine, caller, clock, paris, "Ana lives in Berlin", lifecycle="decaying", importance=0.05
    )
    clock.advance(timedelta(days=100))

    await wear_down(engine, caller.workspace_id, no_beat)

    assert await current(engine, caller) == []
    assert (await get(engine, caller, paris)).superseded_by == berlin.id


async def test_nobody_forgets_a_correction_as_maintenance_does(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, caller, berlin, reason=WORN_OUT)

    assert await current(engine, caller) == ["Ana lives in Paris"]


async def test_a_correction_said_again_replaces_what_the_first_one_did_and_gives_it_back(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris", lifecycle="decaying")
    await replace(engine, caller, clock, paris, "Ana lives in Berlin", lifecycle="decaying")
    since = clock.at
    clock.advance(A_DAY)
    again = await say(engine, caller, "Ana lives in Berlin", lifecycle="decaying")

    await wear_down(engine, caller.workspace_id, no_beat)

    assert await current(engine, caller) == ["Ana lives in Berlin"]
    old = await get(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (since, again.id)
    await forget(engine, caller, again)
    assert await current(engine, caller) == ["Ana lives in Paris"]


async def test_what_somebody_held_true_again_is_not_replaced_because_the_newer_comes_back(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana works in Berlin")
    await reopen(engine, caller, paris)
    await forget(engine, caller, berlin)

    await restore(engine, caller, berlin)

    assert await current(engine, caller) == ["Ana lives in Paris", "Ana works in Berlin"]
    async with engine.reading(caller) as db:
        kept = await links.touching(db, caller, [MemoryId(berlin.id)], limit=10, now=engine.now())  # pyright: ignore[reportArgumentType]
    assert [(each.relation, each.is_authored) for each in kept] == [(Relation.UPDATES, False)]
    clock.advance(A_DAY)
    await link(engine, caller, berlin, Link(paris, Relation.UPDATES))
    assert (await get(engine, caller, paris)).valid_until == clock.at


async def test_unlinking_one_of_two_replacements_leaves_the_other(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await replace(engine, caller, clock, paris, "Ana lives in Rome")

    await unlink(engine, caller, berlin, paris, Relation.UPDATES)

    assert (await get(engine, caller, paris)).superseded_by == rome.id


async def test_the_history_says_that_a_statement_is_held_true_again(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, caller, berlin)

    codes = {(await get(engine, caller, paris)).code}
    found, _ = await list_events(engine, caller, ListEvents(limit=10, action="memory.reopened"))
    assert {event.details["memory"] for event in found} == codes


async def test_who_forgets_a_correction_is_not_told_of_a_statement_that_is_not_theirs_to_see(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    stranger = await colleague(engine, caller)
    paris = await say(engine, caller, "Ana lives in Paris", scope=Scope.GLOBAL)
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, stranger, berlin)

    assert await current(engine, caller) == ["Ana lives in Paris"]
    told, _ = await list_events(engine, stranger, ListEvents(limit=10, action="memory.reopened"))
    assert told == []


async def test_erasing_who_is_behind_a_correction_makes_the_old_statement_current_again(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    await replace(engine, caller, clock, paris, "Ana lives in Berlin", subject="somebody")
    target = Target(Kind.SUBJECT, caller.org_id, [caller.workspace_id], text="somebody")

    await erase(engine, target, by="test")

    assert await current(engine, caller) == ["Ana lives in Paris"]
    again = await get(engine, caller, paris)
    assert (again.valid_until, again.superseded_by) == (None, None)


async def test_erasing_the_second_of_three_statements_leaves_the_first_replaced(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await say(engine, caller, "Ana lives in Paris")
    berlin = await replace(engine, caller, clock, paris, "Ana lives in Berlin", subject="somebody")
    rome = await replace(engine, caller, clock, berlin, "Ana lives in Rome")
    target = Target(Kind.SUBJECT, caller.org_id, [caller.workspace_id], text="somebody")

    await erase(engine, target, by="test")

    old = await get(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (clock.at, rome.id)
