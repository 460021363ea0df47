"""One memory read, changed and deleted, and lists of them (R208-R222, R224-R225)."""

from datetime import timedelta
from typing import Any

import pytest

from recollect.engine.core import Engine
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, new_caller, serve, visit
from tests.support.statebase import (
    NO_MEMORY,
    NO_SESSION,
    complaint,
    found,
    listed,
    open_session,
    problem,
    remember,
)

pytestmark = pytest.mark.anyio

TABLES = ("memory", "memory_vector", "memory_word", "memory_terms")


async def vectors(engine: Engine, visitor: Visitor) -> list[str]:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT embedding::text FROM memory_vector WHERE workspace_id = %s ORDER BY 1",
            [visitor.caller.workspace_id],
        )
        return [row[0] for row in await cursor.fetchall()]


async def test_R208_one_memory_reads_as_it_was_created(visitor: Visitor) -> None:
    memory = await remember(
        visitor.http,
        "Ada lives in London",
        type="fact",
        tags=["home"],
        metadata={"n": {"m": [1]}},
        summary="Ada's home",
        key="ada-home",
        importance=0.8,
        pinned=True,
        expires_at="2027-01-01T00:00:00Z",
        user_id="ada",
    )

    answer = await visitor.http.get(f"/v1/memory/{memory['id']}")

    assert (answer.status_code, answer.json()) == (200, memory)


async def test_R208_every_spelling_of_an_id_finds_the_memory(
    visitor: Visitor, engine: Engine
) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT id, code FROM memory WHERE workspace_id = %s", [visitor.caller.workspace_id]
        )
        [(uuid, code)] = await cursor.fetchall()
    short = code[:12]
    spellings = [f"mem_{short}", f"mem-{short}", short, f"mem_{code}", code, str(uuid), uuid.hex]

    answers = [await visitor.http.get(f"/v1/memory/{each}") for each in spellings]

    assert [answer.json() for answer in answers] == [memory] * len(spellings)
    wrong_end = await visitor.http.get(f"/v1/memory/mem_{short}{'x' * 12}")
    assert (wrong_end.status_code, wrong_end.json()) == (404, NO_MEMORY)


@pytest.mark.parametrize(
    "memory_id",
    [
        "mem_aaaaaaaaaaaa",
        "00000000-0000-0000-0000-000000000000",
        "nonsense",
        "mem_",
        "日本",
        "%20",
        "search",
    ],
)
async def test_R209_R225_an_unknown_id_is_not_found(visitor: Visitor, memory_id: str) -> None:
    kept = await remember(visitor.http, "Ada lives in London")
    address = f"/v1/memory/{memory_id}"

    answers = [
        await visitor.http.get(address),
        await visitor.http.patch(address, json={"content": "Ada lives in Paris"}),
        await visitor.http.delete(address),
    ]

    assert [(each.status_code, each.json()) for each in answers] == [(404, NO_MEMORY)] * 3
    assert (await visitor.http.get(f"/v1/memory/{kept['id']}")).json() == kept


async def test_R209_a_strangers_memory_does_not_exist(visitor: Visitor, engine: Engine) -> None:
    stranger = await new_caller(engine)
    key = await key_for(engine, stranger.workspace_id)
    async with visit(serve(engine), **{"X-API-Key": key}) as http:
        theirs = await remember(http, "Grace lives in New York")
        address = f"/v1/memory/{theirs['id']}"

        answers = [
            await visitor.http.get(address),
            await visitor.http.patch(address, json={"content": "Grace lives nowhere"}),
            await visitor.http.delete(address),
        ]

        assert [(each.status_code, each.json()) for each in answers] == [(404, NO_MEMORY)] * 3
        assert (await http.get(address)).json() == theirs


@pytest.mark.parametrize(
    "change",
    [
        {"content": "Ada lives in Paris"},
        {"type": "event"},
        {"tags": ["work"]},
        {"summary": "Where Ada is"},
        {"key": "ada"},
        {"importance": 0.25},
        {"pinned": True},
        {"expires_at": "2027-01-01T00:00:00.000000Z"},
    ],
)
async def test_R210_a_change_changes_what_was_sent_alone(
    visitor: Visitor, clock: Clock, change: dict[str, Any]
) -> None:
    memory = await remember(
        visitor.http, "Ada lives in London", type="fact", tags=["home"], metadata={"n": 1}
    )
    clock.advance(timedelta(seconds=5))
    silent = {"session_id": None, "metadata": None, "unknown": "ignored"}

    answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json={**silent, **change})

    expected = {**memory, **change, "updated_at": "2026-03-01T12:00:05.000000Z", "version": 2}
    assert (answer.status_code, answer.json()) == (200, expected)
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == expected


@pytest.mark.parametrize("body", [{}, {"content": None, "tags": None, "type": None}])
async def test_R210_nothing_sent_changes_nothing(visitor: Visitor, body: dict[str, Any]) -> None:
    memory = await remember(visitor.http, "Ada lives in London")

    answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json=body)

    assert (answer.status_code, answer.json()) == (200, memory)


async def test_R210_writing_back_what_was_read_changes_nothing(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    memory = await remember(visitor.http, "Ada lives in London", tags=["a"], metadata={"n": 1})
    clock.advance(timedelta(seconds=5))

    answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json=memory)

    traces = (await visitor.http.get("/v1/traces", params={"action": "memory.updated"})).json()
    assert answer.json() == memory
    assert traces["data"] == []


async def test_R211_new_content_gets_a_new_embedding(
    visitor: Visitor, engine: Engine, embedder: StubEmbedder
) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    before = await vectors(engine, visitor)

    answer = await visitor.http.patch(
        f"/v1/memory/{memory['id']}", json={"content": "Ada moved to Paris"}
    )

    after = await vectors(engine, visitor)
    assert answer.json()["vector_available"] is True
    assert len(before) == len(after) == 1
    assert before != after
    assert await found(visitor.http, "Ada moved to Paris", threshold=0.99) == ["Ada moved to Paris"]
    assert await found(visitor.http, "Ada lives in London", threshold=0.99) == []


async def test_R211_new_content_loses_its_old_words_too(
    visitor: Visitor, embedder: StubEmbedder
) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    embedder.is_down = True

    await visitor.http.patch(f"/v1/memory/{memory['id']}", json={"content": "Ada moved to Paris"})

    assert await found(visitor.http, "London") == []
    assert await found(visitor.http, "Paris") == ["Ada moved to Paris"]


async def test_R212_unchanged_content_keeps_its_embedding(
    visitor: Visitor, engine: Engine, embedder: StubEmbedder
) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    before = await vectors(engine, visitor)
    asked = list(embedder.asked)

    for change in ({"tags": ["home"]}, {"content": "Ada lives in London", "type": "fact"}):
        answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json=change)
        assert answer.json()["vector_available"] is True

    assert embedder.asked == asked
    assert await vectors(engine, visitor) == before


@pytest.mark.parametrize("tags", [["c"], [], ["b", "a"]])
async def test_R213_tags_are_replaced(visitor: Visitor, tags: list[str]) -> None:
    memory = await remember(visitor.http, "Ada lives in London", tags=["a", "b"])

    answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json={"tags": tags})

    assert answer.json()["tags"] == tags
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json()["tags"] == tags


async def test_R214_metadata_is_merged(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "Ada lives in London", metadata={"a": 1, "b": 2})

    answer = await visitor.http.patch(
        f"/v1/memory/{memory['id']}", json={"metadata": {"b": 3, "c": 4}}
    )

    assert answer.json()["metadata"] == {"a": 1, "b": 3, "c": 4}
    read = (await visitor.http.get(f"/v1/memory/{memory['id']}")).json()
    assert read["metadata"] == {"a": 1, "b": 3, "c": 4}


async def test_R215_the_limit_of_content_holds_on_a_change_too(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "Ada lives in London", tags=["a"])
    address = f"/v1/memory/{memory['id']}"

    longer = await visitor.http.patch(address, json={"content": "é" * 10_001, "tags": ["b"]})
    unchanged = (await visitor.http.get(address)).json()
    fitting = await visitor.http.patch(address, json={"content": "é" * 10_000})

    assert longer.status_code == 413
    assert longer.json() == problem(
        "content_too_large",
        "`content` may have at most 10,000 characters; this has 10,001.",
        param="content",
    )
    assert unchanged == memory
    assert fitting.json()["content"] == "é" * 10_000


@pytest.mark.parametrize("content", ["", " \n", 7, {"text": "Ada"}])
async def test_R215_content_cannot_be_changed_into_none(visitor: Visitor, content: Any) -> None:
    memory = await remember(visitor.http, "Ada lives in London")

    answer = await visitor.http.patch(f"/v1/memory/{memory['id']}", json={"content": content})

    assert complaint(answer) == (400, "invalid_request", "content")
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R216_a_deleted_memory_is_nowhere(visitor: Visitor, engine: Engine) -> None:
    memory = await remember(visitor.http, "Ada lives in London", tags=["home"])
    address = f"/v1/memory/{memory['id']}"

    answer = await visitor.http.delete(address)

    assert (answer.status_code, answer.content) == (204, b"")
    async with engine.pool.everywhere() as db:
        rows = [
            await (
                await db.execute(
                    f"SELECT count(*) FROM {table} WHERE workspace_id = %s",
                    [visitor.caller.workspace_id],
                )
            ).fetchone()
            for table in TABLES
        ]
    assert rows == [(0,)] * len(TABLES)
    again = [await visitor.http.get(address), await visitor.http.delete(address)]
    assert [(each.status_code, each.json()) for each in again] == [(404, NO_MEMORY)] * 2
    assert await listed(visitor.http) == []
    assert await found(visitor.http, "Ada lives in London", threshold=0.0) == []


async def test_R217_a_list_holds_every_memory_newest_first(visitor: Visitor, clock: Clock) -> None:
    made: list[dict[str, Any]] = []
    for text in ("first", "second", "third"):
        made.insert(0, await remember(visitor.http, text, embed=text != "second"))
        clock.advance(timedelta(seconds=1))

    answer = await visitor.http.get("/v1/memory")

    assert answer.status_code == 200
    assert answer.json() == {
        "object": "list",
        "data": made,
        "has_more": False,
        "first_id": made[0]["id"],
        "last_id": made[-1]["id"],
    }


async def test_R218_session_user_and_type_filter_alone_and_together(visitor: Visitor) -> None:
    by_ada = await open_session(visitor.http, user_id="ada")
    by_ada_too = await open_session(visitor.http, user_id="ada")
    by_grace = await open_session(visitor.http, user_id="grace")
    for text, session, kind in [
        ("one", by_ada, "fact"),
        ("two", by_ada, "event"),
        ("three", by_ada_too, "fact"),
        ("four", by_grace, "fact"),
    ]:
        await remember(visitor.http, text, session, type=kind)

    async def texts(**parameters: str) -> set[str]:
        return set(await listed(visitor.http, **parameters))

    assert await texts(session_id=by_ada["id"]) == {"one", "two"}
    assert await texts(user_id="ada") == {"one", "two", "three"}
    assert await texts(type="fact") == {"one", "three", "four"}
    assert await texts(session_id=by_ada["id"], type="fact") == {"one"}
    assert await texts(user_id="ada", type="fact") == {"one", "three"}
    assert await texts(session_id=by_ada["id"], user_id="ada", type="event") == {"two"}
    assert await texts(session_id=by_ada["id"], user_id="grace") == set()
    assert await texts(session_id="sess_aaaaaaaaaaaa") == set()


@pytest.mark.parametrize("tags", ["a,b", " a , b ", "a,,b,", "b,a,nowhere"])
async def test_R219_tags_are_one_comma_separated_text(visitor: Visitor, tags: str) -> None:
    for text, given in [("one", ["a"]), ("two", ["b", "x"]), ("three", ["c"]), ("four", [])]:
        await remember(visitor.http, text, tags=given)

    assert set(await listed(visitor.http, tags=tags)) == {"one", "two"}


async def test_R220_twenty_rows_unless_asked_and_never_more_than_a_hundred(
    visitor: Visitor,
) -> None:
    session = await open_session(visitor.http)
    for n in range(105):
        await remember(visitor.http, f"fact {n}", session, embed=False)

    counts = [
        len(await listed(visitor.http, **given))
        for given in ({}, {"limit": 1}, {"limit": 100}, {"limit": 101}, {"limit": 10**30})
    ]

    assert counts == [20, 1, 100, 100, 100]


@pytest.mark.parametrize("limit", ["0", "-1", "ten", "1.5", "", "1e3"])
async def test_R220_a_limit_is_a_whole_number_from_one(visitor: Visitor, limit: str) -> None:
    answer = await visitor.http.get("/v1/memory", params={"limit": limit})

    assert complaint(answer) == (400, "invalid_request", "limit")


async def test_R221_a_walk_by_twenty_sees_each_of_45_once(visitor: Visitor, clock: Clock) -> None:
    session = await open_session(visitor.http)
    made: list[str] = []
    for n in range(45):  # many of them at the same instant
        made.insert(0, (await remember(visitor.http, f"fact {n}", session, embed=False))["id"])
        clock.advance(timedelta(seconds=n % 3 // 2))

    pages: list[list[str]] = []
    more, after = True, {}
    while more:
        page = (await visitor.http.get("/v1/memory", params=after)).json()
        assert [page["first_id"], page["last_id"]] == [
            page["data"][0]["id"],
            page["data"][-1]["id"],
        ]
        pages.append([each["id"] for each in page["data"]])
        more, after = page["has_more"], {"starting_after": page["last_id"]}
        await remember(visitor.http, "a newcomer", session, embed=False)

    walked = [each for page in pages for each in page]
    assert [len(page) for page in pages] == [20, 20, 5]
    assert len(set(walked)) == 45
    assert set(walked) == set(made)


@pytest.mark.parametrize("after", ["mem_aaaaaaaaaaaa", "nonsense", "", "sess_aaaaaaaaaaaa"])
async def test_R221_an_unknown_starting_point_is_refused(visitor: Visitor, after: str) -> None:
    await remember(visitor.http, "Ada lives in London")

    answer = await visitor.http.get("/v1/memory", params={"starting_after": after})

    assert complaint(answer) == (400, "invalid_request", "starting_after")


async def test_R222_all_six_types_can_be_saved_filtered_and_listed(visitor: Visitor) -> None:
    types = ["fact", "preference", "event", "policy", "observation", "general"]

    for each in types:
        await remember(visitor.http, f"a {each}", type=each)

    assert [await listed(visitor.http, type=each) for each in types] == [
        [f"a {each}"] for each in types
    ]
    assert [
        await found(visitor.http, f"a {each}", type=each, threshold=0.99) for each in types
    ] == [[f"a {each}"] for each in types]


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b"{}", "`content` is required.", "content"),
        (
            b'{"session_id": 7, "content": "Ada"}',
            "`session_id` must be text.",
            "session_id",
        ),
        (b'{"content": "Ada"', "The body is not valid JSON.", None),
        (b"", "The body must be a JSON object.", None),
    ],
)
async def test_R224_bad_input_is_an_invalid_request(
    visitor: Visitor, body: bytes, message: str, param: str | None
) -> None:
    answer = await visitor.http.post(
        "/v1/memory", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 400
    assert answer.json() == problem("invalid_request", message, param=param)


async def test_R225_what_is_missing_is_named(visitor: Visitor) -> None:
    memory = await visitor.http.get("/v1/memory/mem_aaaaaaaaaaaa")
    session = await visitor.http.get("/v1/sessions/sess_aaaaaaaaaaaa")
    trace = await visitor.http.get("/v1/traces/trace_aaaaaaaaaaaa")

    assert (memory.status_code, memory.json()) == (404, NO_MEMORY)
    assert (session.status_code, session.json()) == (404, NO_SESSION)
    assert (trace.status_code, trace.json()) == (
        404,
        problem("resource_not_found", "There is no such trace."),
    )
