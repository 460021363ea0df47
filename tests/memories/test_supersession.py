"""Supersession: which memory is current, and what becomes current again after an undo."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from recollect.conversations.traces import ListEvents, list_events
from recollect.core.domain import Caller, MemoryId, Ref, Relation, Scope, View
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine
from recollect.memories.decay_job import run_decay
from recollect.memories.edit import find_memory
from recollect.memories.forget import forget, remove, restore
from recollect.memories.links import Link, link, reopen, unlink
from recollect.memories.queries import links, memories, supersession
from recollect.memories.queries.decay import FADED
from recollect.memories.save import Save, save
from recollect.portability.erasure import erase
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget
from recollect.search.hybrid import Search, SearchMode, search
from recollect.tenancy.thread_lookup import ThreadName
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.instance import wait_until_blocked

pytestmark = pytest.mark.anyio

Deletion = Callable[[Engine, Caller, Ref], Coroutine[object, object, object]]

DAY = timedelta(days=1)


async def save_statement(engine: Engine, caller: Caller, text: str, **options: object) -> Ref:
    saved = await save(engine, caller, Save(text, **options))  # pyright: ignore[reportArgumentType]
    return Ref(id=saved.memory.id)


async def supersede(
    engine: Engine, caller: Caller, clock: Clock, old: Ref, text: str, **options: object
) -> Ref:
    """Save a statement, one day later, that supersedes the old one."""
    clock.advance(DAY)
    return await save_statement(
        engine, caller, text, links=[Link(old, Relation.UPDATES)], **options
    )


async def current_texts(engine: Engine, caller: Caller, view: View | None = None) -> list[str]:
    ask = Search(mode=SearchMode.RECENT, limit=50, view=view or View(), counts_as_access=False)
    found = await search(engine, caller, ask)
    return sorted(finding.memory.content for finding in found.findings)


@asynccontextmanager
async def start_all_blocked(
    engine: Engine, caller: Caller, *actions: Coroutine[object, object, object]
) -> AsyncGenerator[None]:
    """Start these in order; each runs until it is blocked by our supersession lock."""
    async with engine.writing(caller) as db:
        await supersession.lock_supersession(db, caller.workspace_id)
        tasks: list[asyncio.Task[object]] = []
        for action in actions:
            tasks.append(asyncio.create_task(action))
            await wait_until_blocked(engine, len(tasks))
        yield
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("delete", [forget, remove])
async def test_deleting_a_correction_makes_the_old_statement_current(
    engine: Engine, caller: Caller, clock: Clock, delete: Deletion
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")

    await delete(engine, caller, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Paris"]
    again = await find_memory(engine, caller, paris)
    assert (again.valid_until, again.superseded_by) == (None, None)


async def test_a_restored_correction_supersedes_from_the_original_time(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    before = await find_memory(engine, caller, paris)
    clock.advance(DAY)
    await forget(engine, caller, berlin)
    clock.advance(DAY)

    await restore(engine, caller, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Berlin"]
    after = await find_memory(engine, caller, paris)
    assert (after.valid_until, after.superseded_by) == (before.valid_until, berlin.id)
    then = View(as_of=clock.at - 3 * DAY)
    assert await current_texts(engine, caller, then) == ["Ana lives in Paris"]


@pytest.mark.parametrize("delete", [forget, remove])
async def test_a_statement_stays_superseded_while_one_correction_remains(
    engine: Engine, caller: Caller, clock: Clock, delete: Deletion
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, paris, "Ana lives in Rome")

    await delete(engine, caller, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Rome"]
    old = await find_memory(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (clock.at, rome.id)


@pytest.mark.parametrize("delete", [forget, remove])
async def test_deleting_the_second_of_three_does_not_reopen_the_first(
    engine: Engine, caller: Caller, clock: Clock, delete: Deletion
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, berlin, "Ana lives in Rome")

    await delete(engine, caller, berlin)
    without_the_second = await current_texts(engine, caller)
    await delete(engine, caller, rome)

    assert without_the_second == ["Ana lives in Rome"]
    assert await current_texts(engine, caller) == ["Ana lives in Paris"]


async def test_restoring_the_second_of_three_supersedes_the_first_again(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, berlin, "Ana lives in Rome")
    await forget(engine, caller, berlin)
    await forget(engine, caller, rome)

    await restore(engine, caller, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Berlin"]
    assert (await find_memory(engine, caller, paris)).superseded_by == berlin.id


async def test_a_supersession_in_the_wrong_direction_can_be_reversed(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    new = await save_statement(engine, caller, "Ana lives in Berlin")
    old = await save_statement(engine, caller, "Ana lives in Paris")
    await link(engine, caller, old, Link(new, Relation.UPDATES))
    clock.advance(DAY)

    await link(engine, caller, new, Link(old, Relation.UPDATES))

    assert await current_texts(engine, caller) == ["Ana lives in Berlin"]
    await forget(engine, caller, new)
    assert await current_texts(engine, caller) == ["Ana lives in Paris"]


async def test_in_a_cycle_of_updates_the_last_link_wins(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    first, second, third = [
        await save_statement(engine, caller, name) for name in ("one", "two", "three")
    ]
    await link(engine, caller, first, Link(second, Relation.UPDATES))
    clock.advance(DAY)
    await link(engine, caller, second, Link(third, Relation.UPDATES))
    clock.advance(DAY)

    await link(engine, caller, third, Link(first, Relation.UPDATES))

    assert await current_texts(engine, caller) == ["three"]


async def test_of_two_simultaneous_opposite_links_one_wins(engine: Engine, caller: Caller) -> None:
    paris, berlin = (
        await save_statement(engine, caller, "Paris"),
        await save_statement(engine, caller, "Berlin"),
    )

    async with engine.writing(caller) as db:
        for each in (paris, berlin):
            assert await memories.lock(db, caller, each)
        linking = [
            asyncio.create_task(link(engine, caller, one, Link(other, Relation.UPDATES)))
            for one, other in ((paris, berlin), (berlin, paris))
        ]
        await wait_until_blocked(engine, 2)
    await asyncio.gather(*linking)

    assert await current_texts(engine, caller) in (["Paris"], ["Berlin"])


async def test_two_simultaneous_links_that_form_a_cycle_leave_one_current(
    engine: Engine, caller: Caller
) -> None:
    """No memory is in both links, so row locks alone do not make one wait for the other."""
    one, two, three, four = [
        await save_statement(engine, caller, name) for name in ("1", "2", "3", "4")
    ]
    await link(engine, caller, one, Link(two, Relation.UPDATES))
    await link(engine, caller, three, Link(four, Relation.UPDATES))

    async with start_all_blocked(
        engine,
        caller,
        link(engine, caller, two, Link(three, Relation.UPDATES)),
        link(engine, caller, four, Link(one, Relation.UPDATES)),
    ):
        pass

    assert await current_texts(engine, caller) == ["4"]


async def test_the_two_later_of_three_can_be_forgotten_simultaneously(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, berlin, "Ana lives in Rome")

    async with start_all_blocked(
        engine, caller, forget(engine, caller, rome), forget(engine, caller, berlin)
    ):
        pass

    assert await current_texts(engine, caller) == ["Ana lives in Paris"]


@pytest.mark.parametrize("delete", [forget, remove])
async def test_simultaneous_delete_and_link_do_not_deadlock(
    engine: Engine, caller: Caller, clock: Clock, delete: Deletion
) -> None:
    """In whatever order they lock the memories: a deadlock would fail one of them."""
    for _ in range(4):
        paris = await save_statement(engine, caller, "Ana lives in Paris")
        berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
        rome = await save_statement(engine, caller, "Ana lives in Rome")
        async with start_all_blocked(
            engine,
            caller,
            link(engine, caller, rome, Link(paris, Relation.UPDATES)),
            delete(engine, caller, berlin),
        ):
            pass
        assert await current_texts(engine, caller) == ["Ana lives in Rome"]
        await remove(engine, caller, rome)
        await remove(engine, caller, paris)


@pytest.mark.parametrize("scope", [Scope.GLOBAL, Scope.THREAD])
async def test_a_private_memory_cannot_supersede_a_shared_one(
    engine: Engine, caller: Caller, clock: Clock, scope: Scope
) -> None:
    colleague = await add_colleague(engine, caller)
    shared = await save_statement(engine, colleague, "The office opens at nine")
    channel = ThreadName("mine") if scope is Scope.THREAD else None
    own = await supersede(
        engine, caller, clock, shared, "The office opens at ten", scope=scope, thread_name=channel
    )

    assert await current_texts(engine, colleague) == ["The office opens at nine"]
    assert (await find_memory(engine, colleague, shared)).superseded_by is None
    await forget(engine, caller, own) if scope is Scope.GLOBAL else None
    shared_too = await supersede(engine, caller, clock, shared, "The office opens at eight")
    assert (await find_memory(engine, colleague, shared)).superseded_by == shared_too.id


async def test_a_private_memory_supersedes_a_private_one_of_the_same_user(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    tea = await save_statement(engine, caller, "I like tea", scope=Scope.GLOBAL)
    await supersede(engine, caller, clock, tea, "I like coffee", scope=Scope.GLOBAL)

    assert await current_texts(engine, caller) == ["I like coffee"]


async def test_validity_ends_when_the_remaining_correction_was_linked(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    """Two paths from the same memory: a direct link, and one through a forgotten memory."""
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, berlin, "Ana lives in Rome")
    since = clock.at
    await forget(engine, caller, berlin)
    assert (await find_memory(engine, caller, paris)).valid_until == since
    clock.advance(DAY)
    await link(engine, caller, rome, Link(paris, Relation.UPDATES))
    await remove(engine, caller, berlin)
    await unlink(engine, caller, rome, paris, Relation.UPDATES)
    clock.advance(DAY)

    await link(engine, caller, rome, Link(paris, Relation.UPDATES))

    old = await find_memory(engine, caller, paris)
    assert (old.superseded_by, old.valid_until) == (rome.id, clock.at)


async def test_a_decayed_correction_still_supersedes_the_old_statement(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(
        engine, caller, clock, paris, "Ana lives in Berlin", lifecycle="decaying", importance=0.05
    )
    clock.advance(timedelta(days=100))

    await run_decay(engine, caller.workspace_id, no_heartbeat)

    assert await current_texts(engine, caller) == []
    assert (await find_memory(engine, caller, paris)).superseded_by == berlin.id


async def test_forgetting_with_the_maintenance_reason_still_reopens(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, caller, berlin, reason=FADED)

    assert await current_texts(engine, caller) == ["Ana lives in Paris"]


async def test_a_repeated_correction_takes_over_the_supersession(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris", lifecycle="decaying")
    await supersede(engine, caller, clock, paris, "Ana lives in Berlin", lifecycle="decaying")
    since = clock.at
    clock.advance(DAY)
    again = await save_statement(engine, caller, "Ana lives in Berlin", lifecycle="decaying")

    await run_decay(engine, caller.workspace_id, no_heartbeat)

    assert await current_texts(engine, caller) == ["Ana lives in Berlin"]
    old = await find_memory(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (since, again.id)
    await forget(engine, caller, again)
    assert await current_texts(engine, caller) == ["Ana lives in Paris"]


async def test_a_reopened_statement_stays_current_when_the_newer_is_restored(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana works in Berlin")
    await reopen(engine, caller, paris)
    await forget(engine, caller, berlin)

    await restore(engine, caller, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Paris", "Ana works in Berlin"]
    async with engine.reading(caller) as db:
        stored = await links.links_of(db, caller, [MemoryId(berlin.id)], limit=10, now=engine.now())  # pyright: ignore[reportArgumentType]
    assert [(each.relation, each.is_authored) for each in stored] == [(Relation.UPDATES, False)]
    clock.advance(DAY)
    await link(engine, caller, berlin, Link(paris, Relation.UPDATES))
    assert (await find_memory(engine, caller, paris)).valid_until == clock.at


async def test_unlinking_one_of_two_corrections_leaves_the_other(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")
    rome = await supersede(engine, caller, clock, paris, "Ana lives in Rome")

    await unlink(engine, caller, berlin, paris, Relation.UPDATES)

    assert (await find_memory(engine, caller, paris)).superseded_by == rome.id


async def test_the_audit_log_records_that_a_statement_was_reopened(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, caller, berlin)

    codes = {(await find_memory(engine, caller, paris)).code}
    found, _ = await list_events(engine, caller, ListEvents(limit=10, action="memory.reopened"))
    assert {event.details["memory"] for event in found} == codes


async def test_no_event_reveals_a_reopened_memory_the_caller_cannot_see(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    colleague = await add_colleague(engine, caller)
    paris = await save_statement(engine, caller, "Ana lives in Paris", scope=Scope.GLOBAL)
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin")

    await forget(engine, colleague, berlin)

    assert await current_texts(engine, caller) == ["Ana lives in Paris"]
    events, _ = await list_events(engine, colleague, ListEvents(limit=10, action="memory.reopened"))
    assert events == []


async def test_erasing_the_author_of_a_correction_reopens_the_old_statement(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    await supersede(engine, caller, clock, paris, "Ana lives in Berlin", subject="ben")
    target = ErasureTarget(ErasureKind.SUBJECT, caller.org_id, [caller.workspace_id], text="ben")

    await erase(engine, target, by="test")

    assert await current_texts(engine, caller) == ["Ana lives in Paris"]
    again = await find_memory(engine, caller, paris)
    assert (again.valid_until, again.superseded_by) == (None, None)


async def test_erasing_the_second_of_three_leaves_the_first_superseded(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    paris = await save_statement(engine, caller, "Ana lives in Paris")
    berlin = await supersede(engine, caller, clock, paris, "Ana lives in Berlin", subject="ben")
    rome = await supersede(engine, caller, clock, berlin, "Ana lives in Rome")
    target = ErasureTarget(ErasureKind.SUBJECT, caller.org_id, [caller.workspace_id], text="ben")

    await erase(engine, target, by="test")

    old = await find_memory(engine, caller, paris)
    assert (old.valid_until, old.superseded_by) == (clock.at, rome.id)
