"""Messages: stored once, in one order for all servers, paged, edited and deleted."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

import pytest

from recollect.conversations.messages import (
    MAX_AT_ONCE,
    MAX_BYTES,
    EditMessage,
    ListMessages,
    MessagePage,
    NewMessage,
    append,
    append_within,
    clear_messages,
    delete_message,
    edit_message,
    get_message,
    list_messages,
)
from recollect.conversations.queries import segments
from recollect.conversations.segments import MakeSegment, make_segment
from recollect.conversations.threads import OpenThread, close_thread, get_thread, open_thread
from recollect.core.domain import Caller, ProjectId, Ref, Right, Scope, Thread
from recollect.core.errors import Denied, Invalid, NotFound, TooLarge
from recollect.engine import Engine
from recollect.learning.remember_message import RememberMessage, remember_message
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.search.memory_browser import memory_detail
from tests.support.alumia import add_colleague, new_project
from tests.support.clock import Clock
from tests.support.conversations import add_messages, new_chat
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller, open_pool

pytestmark = pytest.mark.anyio


@pytest.fixture
async def chat(engine: Engine, caller: Caller) -> Thread:
    return await new_chat(engine, caller)


async def listed(
    engine: Engine, caller: Caller, chat: Thread, ask: ListMessages | None = None
) -> MessagePage:
    return await list_messages(engine, caller, Ref(id=chat.id), ask or ListMessages(limit=100))


def texts(page: MessagePage) -> list[str]:
    return [each.content for each in page.messages]


async def test_appended_messages_are_read_back_in_order(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    new = NewMessage(
        "user",
        "  What were our Q4 targets? \n",
        author="ada",
        parts=[{"type": "text", "text": "What were our Q4 targets?"}],
        metadata={"liked": True},
        client_id="m-1",
    )

    [asked] = await append(engine, caller, Ref(id=chat.id), [new])
    clock.advance(timedelta(seconds=15))
    [answered] = await add_messages(engine, caller, chat, "The Q4 targets were $2.5M")

    page = await listed(engine, caller, chat)
    assert page == MessagePage(chat.code, [asked.message, answered], total=2, has_more=False)
    assert asked.message.content == new.content
    assert asked.message.parts == new.parts
    assert asked.message.metadata == new.metadata
    assert await get_message(engine, caller, Ref(code=answered.code[:12])) == answered


async def test_a_message_sent_twice_is_stored_once(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    new = [NewMessage("user", "one", client_id="a"), NewMessage("user", "two", client_id="b")]
    first = await append(engine, caller, Ref(id=chat.id), new)

    again = await append(
        engine, caller, Ref(id=chat.id), [*new, NewMessage("user", "three", client_id="c")]
    )

    assert [each.is_new for each in first] == [True, True]
    assert [each.is_new for each in again] == [False, False, True]
    assert again[0].message == first[0].message
    assert texts(await listed(engine, caller, chat)) == ["one", "two", "three"]


async def test_of_two_equal_client_ids_in_one_request_the_first_is_stored(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    new = [NewMessage("user", "one", client_id="a"), NewMessage("user", "other", client_id="a")]

    found = await append(engine, caller, Ref(id=chat.id), [*new, NewMessage("user", "last")])

    assert [(each.message.content, each.is_new) for each in found] == [
        ("one", True),
        ("one", False),
        ("last", True),
    ]
    assert (await listed(engine, caller, chat)).total == 2


async def test_a_client_id_is_unique_only_within_its_thread(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    other = await new_chat(engine, caller)
    new = [NewMessage("user", "one", client_id="a")]
    await append(engine, caller, Ref(id=chat.id), new)

    [found] = await append(engine, caller, Ref(id=other.id), new)

    assert found.is_new


async def test_two_servers_appending_at_once_agree_on_the_order(
    engine: Engine, caller: Caller, chat: Thread, database_url: str, clock: Clock
) -> None:
    late = Clock(clock.at - timedelta(minutes=5))  # a clock that is five minutes behind
    async with open_pool(database_url, size=8) as pool:
        other = Engine(pool=pool, embedders=Embedders(StubEmbedder()), now=late)
        engines = [engine, other]

        await asyncio.gather(
            *(
                append(
                    engines[number % 2],
                    caller,
                    Ref(id=chat.id),
                    [NewMessage("user", f"{number}a"), NewMessage("user", f"{number}b")],
                )
                for number in range(20)
            )
        )

        ours = await listed(engine, caller, chat)
        theirs = await listed(other, caller, chat)
    assert ours == theirs
    assert [each.position for each in ours.messages] == list(range(1, 41))
    assert ours.total == 40
    pairs = list(zip(texts(ours)[::2], texts(ours)[1::2], strict=True))
    assert all(first[:-1] == second[:-1] for first, second in pairs)


async def test_a_message_sent_by_several_servers_at_once_is_stored_once(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    new = [NewMessage("user", "hello", client_id="same")]

    found = await asyncio.gather(*(append(engine, caller, Ref(id=chat.id), new) for _ in range(8)))

    assert sorted(each[0].is_new for each in found) == [False] * 7 + [True]
    assert len({each[0].message.id for each in found}) == 1


async def test_a_late_message_is_listed_at_its_own_time(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    await add_messages(engine, caller, chat, "first", at=clock.at)
    await add_messages(engine, caller, chat, "third", at=clock.at + timedelta(minutes=2))

    await add_messages(engine, caller, chat, "second", at=clock.at + timedelta(minutes=1))

    assert texts(await listed(engine, caller, chat)) == ["first", "second", "third"]


async def test_a_message_time_is_limited_to_five_minutes_in_the_future(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    minute = timedelta(minutes=1)
    [fast] = await add_messages(engine, caller, chat, "a fast clock", at=clock.at + 4 * minute)
    [wrong] = await add_messages(
        engine, caller, chat, "a wrong clock", at=clock.at.replace(year=2099)
    )
    [undated] = await add_messages(engine, caller, chat, "no clock")

    assert fast.created_at == clock.at + 4 * minute
    assert wrong.created_at == undated.created_at == clock.at + 5 * minute
    assert texts(await listed(engine, caller, chat)) == [
        "a fast clock",
        "a wrong clock",
        "no clock",
    ]


async def test_paging_by_cursor_returns_each_message_once_during_appends(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *(f"{number}" for number in range(10)))

    seen: list[str] = []
    beyond: Ref | None = None
    while True:
        page = await listed(engine, caller, chat, ListMessages(limit=3, beyond=beyond))
        seen += texts(page)
        if len(seen) < 10:
            await add_messages(engine, caller, chat, f"new {len(seen)}")
        if not page.has_more:
            break
        beyond = Ref(id=page.messages[-1].id)

    assert seen[:10] == [f"{number}" for number in range(10)]
    assert len(seen) == len(set(seen)) == (await listed(engine, caller, chat)).total


async def test_a_thread_is_read_newest_first_or_from_a_position(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *(f"{number}" for number in range(10)))

    end = await listed(engine, caller, chat, ListMessages(limit=3, is_newest_first=True))
    middle = await listed(engine, caller, chat, ListMessages(limit=2, start=4))

    assert texts(end) == ["9", "8", "7"]
    assert end.has_more
    assert texts(middle) == ["4", "5"]
    assert middle.total == 10


async def test_a_page_starts_at_any_position(engine: Engine, caller: Caller, chat: Thread) -> None:
    said = [f"Message {number}" for number in range(9)]
    await add_messages(engine, caller, chat, *said)

    for start in range(12):
        for limit in (1, 3, 20):
            page = await listed(engine, caller, chat, ListMessages(limit=limit, start=start))
            assert texts(page) == said[start : start + limit]
            assert page.has_more == (start + limit < len(said))


async def test_a_cursor_of_another_chat_is_refused(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    other = await new_chat(engine, caller)
    [message] = await add_messages(engine, caller, other, "hello")

    with pytest.raises(Invalid):
        await listed(engine, caller, chat, ListMessages(limit=3, beyond=Ref(id=message.id)))


async def test_an_edit_changes_only_the_given_fields_and_sets_edited_at(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    new = [NewMessage("user", "two tickets", metadata={"cost": 3})]
    [kept] = await append(engine, caller, Ref(id=chat.id), new)
    clock.advance(timedelta(minutes=1))

    edited = await edit_message(
        engine,
        caller,
        Ref(id=kept.message.id),
        EditMessage(content="three tickets", metadata={"liked": False}),
    )

    assert (edited.content, edited.metadata) == ("three tickets", {"cost": 3, "liked": False})
    assert edited.edited_at == clock.at
    assert await get_message(engine, caller, Ref(id=edited.id)) == edited


async def test_an_edit_to_the_same_content_changes_nothing(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    [message] = await add_messages(engine, caller, chat, "two tickets")

    edited = await edit_message(
        engine, caller, Ref(id=message.id), EditMessage(content="two tickets")
    )

    assert edited == message


async def test_a_deleted_message_is_neither_listed_nor_counted(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    first, second = await add_messages(engine, caller, chat, "one", "two")

    await delete_message(engine, caller, Ref(id=first.id))

    page = await listed(engine, caller, chat)
    assert (page.messages, page.total) == ([second], 1)
    with pytest.raises(NotFound):
        await delete_message(engine, caller, Ref(id=first.id))


async def test_positions_continue_after_a_chat_is_cleared(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, "one", "two")

    assert await clear_messages(engine, caller, Ref(id=chat.id)) == 2

    assert await listed(engine, caller, chat) == MessagePage(chat.code, [], 0, has_more=False)
    [after] = await add_messages(engine, caller, chat, "three")
    assert after.position == 3


async def test_messages_are_deleted_with_their_thread(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    [message] = await add_messages(engine, caller, chat, "one")

    await close_thread(engine, caller, Ref(id=chat.id))

    with pytest.raises(NotFound):
        await get_message(engine, caller, Ref(id=message.id))


async def test_messages_appended_in_a_failed_transaction_are_not_stored(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    class FailedTransactionError(Exception):
        pass

    with pytest.raises(FailedTransactionError):
        async with engine.writing(caller) as db:
            await append_within(engine, db, caller, Ref(id=chat.id), [NewMessage("user", "hi")])
            raise FailedTransactionError

    assert (await listed(engine, caller, chat)).total == 0


async def test_S41_a_thread_or_message_of_another_org_is_not_found(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    [message] = await add_messages(engine, caller, chat, "one")
    outsider = await new_caller(engine)
    acts = [
        append(engine, outsider, Ref(id=chat.id), [NewMessage("user", "x")]),
        list_messages(engine, outsider, Ref(code=chat.code), ListMessages(limit=1)),
        get_message(engine, outsider, Ref(id=message.id)),
        edit_message(engine, outsider, Ref(code=message.code), EditMessage(content="x")),
        delete_message(engine, outsider, Ref(id=message.id)),
        clear_messages(engine, outsider, Ref(id=chat.id)),
    ]

    for act in acts:
        with pytest.raises(NotFound):
            await act

    assert (await listed(engine, caller, chat)).messages == [message]


async def test_messages_of_an_expired_thread_are_not_found(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    brief = await open_thread(
        engine, caller, OpenThread(agent="chat", lives_for=timedelta(hours=1))
    )
    [message] = await add_messages(engine, caller, brief, "one")
    clock.advance(timedelta(hours=2))

    with pytest.raises(NotFound):
        await get_message(engine, caller, Ref(id=message.id))
    with pytest.raises(NotFound):
        await append(engine, caller, Ref(id=brief.id), [NewMessage("user", "x")])


@pytest.mark.parametrize(
    ("new", "refused"),
    [
        ([], Invalid),
        ([NewMessage("user", "x" * (MAX_BYTES + 1))], TooLarge),
        ([NewMessage("user", "x")] * (MAX_AT_ONCE + 1), TooLarge),
    ],
)
async def test_an_invalid_batch_of_messages_stores_nothing(
    engine: Engine,
    caller: Caller,
    chat: Thread,
    new: list[NewMessage],
    refused: type[Exception],
) -> None:
    with pytest.raises(refused):
        await append(engine, caller, Ref(id=chat.id), new)

    assert (await get_thread(engine, caller, Ref(id=chat.id))).message_count == 0


async def test_S23_each_operation_needs_its_right(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    [message] = await add_messages(engine, caller, chat, "one")
    acts: dict[Right, Callable[[Caller], Awaitable[object]]] = {
        Right.WRITE: lambda who: append(engine, who, Ref(id=chat.id), [NewMessage("user", "x")]),
        Right.READ: lambda who: get_message(engine, who, Ref(id=message.id)),
        Right.DELETE: lambda who: clear_messages(engine, who, Ref(id=chat.id)),
    }

    for right, act in acts.items():
        lacking = Caller(
            caller.org_id, caller.user_id, caller.workspace_id, frozenset(Right) - {right}
        )
        with pytest.raises(Denied):
            await act(lacking)


@pytest.mark.parametrize(
    ("change", "is_shown"),
    [
        ("scope = 'workspace'", True),
        ("scope = 'thread'", True),
        ("scope = 'thread', thread_id = gen_random_uuid()", False),
        ("scope = 'global'", True),
        ("scope = 'global', user_id = %(other)s", False),
        ("scope = 'agent'", False),
        ("scope = 'project', project_id = gen_random_uuid()", False),
        ("deleted_at = now()", False),
        ("expires_at = now() - interval '1 second'", False),
    ],
)
async def test_a_message_names_its_memory_only_to_users_who_can_see_it(
    engine: Engine, caller: Caller, chat: Thread, change: LiteralString, *, is_shown: bool
) -> None:
    said = await add_messages(engine, caller, chat, "The plan is to ship", "On Friday")
    ask = MakeSegment([Ref(id=said[0].id)], summary="They ship")
    made = await make_segment(engine, caller, Ref(id=chat.id), ask)
    statement = f"UPDATE memory SET {change} WHERE workspace_id = %(place)s AND id = %(id)s"
    values = {
        "place": caller.workspace_id,
        "id": made.memory.id,
        "other": (await add_colleague(engine, caller)).user_id,
    }
    async with engine.pool.writing(caller.workspace_id) as db:
        await db.execute(statement, values)

    shown_codes = [each.memory_code for each in (await listed(engine, caller, chat)).messages]

    assert shown_codes == [made.memory.code if is_shown else None, None]


async def test_project_messages_are_hidden_from_users_outside_the_project(
    engine: Engine, caller: Caller
) -> None:
    project = ProjectId(UUID(await new_project(engine, caller)))
    thread = await open_thread(engine, replace(caller, project_id=project), OpenThread(agent=None))
    [said] = await add_messages(engine, caller, thread, "The merger is with Initech.")
    inside = replace(caller, thread_id=thread.id)
    outsider = await add_colleague(engine, caller)
    public = await save(engine, caller, Save("There is a merger."))
    async with engine.writing(caller) as db:
        await segments.link(db, caller.workspace_id, public.memory.id, [said.id])

    kept = await remember_message(engine, inside, RememberMessage(message=f"msg_{said.code}"))

    assert kept.memory.scope is Scope.PROJECT
    with pytest.raises(NotFound):
        await memory_detail(engine, outsider, Ref(id=kept.memory.id))
    shown = [
        [
            each.content
            for each in (await memory_detail(engine, who, Ref(id=public.memory.id))).messages
        ]
        for who in (caller, outsider)
    ]
    assert shown == [[said.content], []]
