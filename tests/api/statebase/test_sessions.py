"""Sessions, their versioned state, turns and context (N06-N09, N12)."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from recollect.engine import Engine
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import ApiClient, wait_until_blocked
from tests.support.statebase import (
    NO_MEMORY,
    NO_SESSION,
    create_memory,
    error_body,
    error_of,
    list_texts,
    open_session,
)

pytestmark = pytest.mark.anyio


async def test_N06_a_session_starts_with_the_given_values(client: ApiClient) -> None:
    response = await client.http.post(
        "/v1/sessions",
        json={
            "agent_id": "support-bot",
            "user_id": "ada",
            "initial_state": {"step": {"n": 1}},
            "metadata": {"channel": "mail"},
            "ttl_seconds": 3600,
        },
    )

    session = response.json()
    assert response.status_code == 201
    assert re.fullmatch(r"sess_[A-Za-z0-9]{12}", session["id"])
    assert session == {
        "object": "session",
        "id": session["id"],
        "agent_id": "support-bot",
        "user_id": "ada",
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "metadata": {"channel": "mail"},
        "state": {"step": {"n": 1}},
        "state_version": 0,
        "memory_count": 0,
        "turn_count": 0,
        "ttl_expires_at": "2026-03-01T13:00:00.000000Z",
    }


async def test_N06_N11_only_the_agent_is_required_and_null_means_absent(client: ApiClient) -> None:
    nulls = {"user_id": None, "initial_state": None, "metadata": None, "ttl_seconds": None}

    sessions = [await open_session(client.http), await open_session(client.http, **nulls)]

    assert [
        (each["user_id"], each["state"], each["metadata"], each["ttl_expires_at"])
        for each in sessions
    ] == [(None, {}, {}, "2026-03-02T12:00:00.000000Z")] * 2


@pytest.mark.parametrize(
    ("ttl", "expires_at"),
    [(1, "2026-03-01T12:00:01.000000Z"), (2_592_000, "2026-03-31T12:00:00.000000Z")],
)
async def test_N06_the_shortest_and_longest_lifetimes_are_accepted(
    client: ApiClient, ttl: int, expires_at: str
) -> None:
    session = await open_session(client.http, ttl_seconds=ttl)

    assert session["ttl_expires_at"] == expires_at


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"agent_id": None}, "agent_id"),
        ({"agent_id": ""}, "agent_id"),
        ({"agent_id": 7}, "agent_id"),
        ({"agent_id": "a" * 256}, "agent_id"),
        ({"ttl_seconds": 0}, "ttl_seconds"),
        ({"ttl_seconds": -1}, "ttl_seconds"),
        ({"ttl_seconds": 2_592_001}, "ttl_seconds"),
        ({"ttl_seconds": "60"}, "ttl_seconds"),
        ({"ttl_seconds": True}, "ttl_seconds"),
        ({"ttl_seconds": 1.5}, "ttl_seconds"),
        ({"initial_state": ["a"]}, "initial_state"),
        ({"initial_state": "a"}, "initial_state"),
        ({"metadata": [1]}, "metadata"),
    ],
)
async def test_N06_an_invalid_session_is_rejected(
    client: ApiClient, fields: dict[str, Any], param: str
) -> None:
    response = await client.http.post("/v1/sessions", json={"agent_id": "agent", **fields})

    assert error_of(response) == (400, "invalid_request", param)
    assert (await client.http.get("/v1/sessions")).json()["data"] == []


async def test_N07_counts_and_times_follow_changes(client: ApiClient, clock: Clock) -> None:
    session = await open_session(client.http, initial_state={"a": 1})
    address = f"/v1/sessions/{session['id']}"
    memory = await create_memory(client.http, "Ada lives in London", session)
    await create_memory(client.http, "Ada likes tea", session)
    await client.http.delete(f"/v1/memory/{memory['id']}")
    clock.advance(timedelta(seconds=5))
    await client.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})
    await client.http.patch(f"{address}/state", json={"state": {"b": 2}})

    response = await client.http.get(address)

    assert (response.status_code, response.json()) == (
        200,
        {
            **session,
            "updated_at": "2026-03-01T12:00:05.000000Z",
            "state": {"a": 1, "b": 2},
            "state_version": 1,
            "memory_count": 1,
            "turn_count": 1,
        },
    )


async def test_N03_N07_sessions_are_listed_newest_first_and_paged(
    client: ApiClient, clock: Clock
) -> None:
    made: list[dict[str, Any]] = []
    for n in range(5):
        made.insert(0, await open_session(client.http, user_id=f"user-{n % 2}"))
        clock.advance(timedelta(seconds=1))

    first = (await client.http.get("/v1/sessions", params={"limit": 3})).json()
    rest = (
        await client.http.get("/v1/sessions", params={"starting_after": first["last_id"]})
    ).json()

    assert first == {
        "object": "list",
        "data": made[:3],
        "has_more": True,
        "first_id": made[0]["id"],
        "last_id": made[2]["id"],
    }
    assert rest == {
        "object": "list",
        "data": made[3:],
        "has_more": False,
        "first_id": made[3]["id"],
        "last_id": made[4]["id"],
    }


async def test_N07_sessions_can_be_filtered_by_agent_user_and_time(
    client: ApiClient, clock: Clock
) -> None:
    for agent, user in [("a", "ada"), ("b", "ada"), ("a", "grace")]:
        await open_session(client.http, agent_id=agent, user_id=user)
        clock.advance(timedelta(hours=1))
    await open_session(client.http, agent_id="ended", ttl_seconds=60)
    clock.advance(timedelta(hours=1))

    async def owners(**parameters: str) -> list[tuple[str, str]]:
        response = await client.http.get("/v1/sessions", params=parameters)
        return [(each["agent_id"], each["user_id"]) for each in response.json()["data"]]

    assert await owners() == [("a", "grace"), ("b", "ada"), ("a", "ada")]
    assert await owners(agent_id="a") == [("a", "grace"), ("a", "ada")]
    assert await owners(user_id="ada") == [("b", "ada"), ("a", "ada")]
    assert await owners(agent_id="a", user_id="ada") == [("a", "ada")]
    assert await owners(created_after="2026-03-01T12:30:00Z") == [("a", "grace"), ("b", "ada")]
    assert await owners(created_after="2026-03-01T14:00:00+01:00") == [("a", "grace")]
    assert await owners(agent_id="nobody") == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"starting_after": "sess_aaaaaaaaaaaa"},
        {"starting_after": "nonsense"},
        {"created_after": "yesterday"},
        {"created_after": "1772366400"},
        {"limit": "0"},
    ],
)
async def test_N07_invalid_list_parameters_are_rejected(
    client: ApiClient, parameters: dict[str, str]
) -> None:
    response = await client.http.get("/v1/sessions", params=parameters)

    assert error_of(response) == (400, "invalid_request", next(iter(parameters)))


async def test_N07_deleting_a_session_deletes_its_memories(
    client: ApiClient, engine: Engine
) -> None:
    session = await open_session(client.http)
    other = await create_memory(client.http, "Grace lives in New York")
    memory = await create_memory(client.http, "Ada lives in London", session)
    address = f"/v1/sessions/{session['id']}"
    await client.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})

    response = await client.http.delete(address)

    assert (response.status_code, response.content) == (204, b"")
    deleted = [await client.http.get(address), await client.http.delete(address)]
    assert [(each.status_code, each.json()) for each in deleted] == [(404, NO_SESSION)] * 2
    missing = await client.http.get(f"/v1/memory/{memory['id']}")
    assert (missing.status_code, missing.json()) == (404, NO_MEMORY)
    assert (await client.http.get(f"/v1/memory/{other['id']}")).json() == other
    async with engine.pool.everywhere() as db:
        left = [
            await (
                await db.execute(
                    f"SELECT count(*) FROM {table} WHERE workspace_id = %s",
                    [client.caller.workspace_id],
                )
            ).fetchone()
            for table in (
                "thread",
                "thread_state",
                "turn",
                "memory",
                "memory_vector",
                "memory_terms",
            )
        ]
    assert left == [(1,), (1,), (0,), (1,), (1,), (1,)]


async def test_N07_a_memory_saved_during_session_deletion_is_rejected(
    client: ApiClient, engine: Engine
) -> None:
    session = await open_session(client.http)
    body = {"session_id": session["id"], "content": "Ada lives in London"}

    async with (
        asyncio.timeout(20),
        asyncio.TaskGroup() as tasks,
        engine.pool.writing(client.caller.workspace_id) as db,
    ):
        await db.execute("SELECT FROM thread FOR UPDATE")
        saving = tasks.create_task(client.http.post("/v1/memory", json=body))
        await wait_until_blocked(engine)  # now both are running
        await db.execute("DELETE FROM thread")

    response = saving.result()
    assert (response.status_code, response.json()) == (404, NO_SESSION)
    assert await list_texts(client.http) == []


async def test_N08_the_context_has_state_memories_and_recent_turns(
    client: ApiClient, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Where is Ada?": at_cosine(1.0), "Ada lives in London": at_cosine(0.8)}
    session = await open_session(client.http, initial_state={"step": 1})
    memory = await create_memory(client.http, "Ada lives in London")
    address = f"/v1/sessions/{session['id']}"
    body = {"input": "hi", "output": {"type": "text", "content": "hello", "tone": "kind"}}
    turn = (await client.http.post(f"{address}/turns", json=body)).json()

    response = await client.http.post(f"{address}/context", json={"query": "Where is Ada?"})

    assert response.status_code == 200
    assert re.fullmatch(r"\d+\.\dms", response.headers["x-statebase-latency"])
    score = pytest.approx(0.8, abs=1e-3)
    assert response.json() == {
        "state": {"step": 1},
        "memories": [{**memory, "score": score, "found_by": "meaning"}],
        "recent_turns": [{name: turn[name] for name in ("id", "input", "output", "created_at")}],
        "average_relevance": score,
    }


async def test_N08_the_context_respects_its_limits(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}"
    for n in range(22):
        await create_memory(client.http, f"fact {n}", session)
    for n in range(52):
        await client.http.post(f"{address}/turns", json={"input": f"{n}", "output": "ok"})

    async def counts(**given: Any) -> tuple[int, int]:
        context = (await client.http.post(f"{address}/context", json=given)).json()
        inputs = [each["input"]["content"] for each in context["recent_turns"]]
        assert inputs[:2] == ["51", "50"]
        return len(context["memories"]), len(inputs)

    for query in ({}, {"query": "q"}):
        assert await counts(**query) == (5, 10)
        assert await counts(**query, memory_limit=None, turn_limit=None) == (5, 10)
        assert await counts(**query, memory_limit=1, turn_limit=2) == (1, 2)
        assert await counts(**query, memory_limit=20, turn_limit=50) == (20, 50)
        assert await counts(**query, memory_limit=21, turn_limit=51) == (20, 50)


async def test_N08_a_context_without_a_query_returns_the_sessions_memories(
    client: ApiClient,
) -> None:
    session = await open_session(client.http)
    memory = await create_memory(client.http, "Ada lives in London", session)
    await create_memory(client.http, "Grace lives in New York")

    response = await client.http.post(f"/v1/sessions/{session['id']}/context")

    assert response.json() == {
        "state": {},
        "memories": [{**memory, "score": 1.0, "found_by": None}],
        "recent_turns": [],
        "average_relevance": None,
    }


@pytest.mark.parametrize("name", ["memory_limit", "turn_limit"])
@pytest.mark.parametrize("limit", [0, -1, "5", True])
async def test_N08_a_limit_must_be_a_positive_integer(
    client: ApiClient, name: str, limit: Any
) -> None:
    session = await open_session(client.http)

    response = await client.http.post(f"/v1/sessions/{session['id']}/context", json={name: limit})

    assert error_of(response) == (400, "invalid_request", name)


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_N09_post_and_put_replace_the_state(
    client: ApiClient, clock: Clock, method: str
) -> None:
    session = await open_session(client.http, initial_state={"a": 1})
    clock.advance(timedelta(seconds=5))
    address = f"/v1/sessions/{session['id']}/state"

    response = await client.http.request(
        method, address, json={"state": {"b": {"c": [2]}}, "reasoning": "begin again"}
    )

    state = {
        "object": "state",
        "session_id": session["id"],
        "version": 1,
        "state": {"b": {"c": [2]}},
        "reasoning": None,
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:05.000000Z",
    }
    assert (response.status_code, response.json()) == (200, state)
    assert (await client.http.get(address)).json() == state


async def test_N09_a_partial_update_keeps_the_other_keys(client: ApiClient) -> None:
    session = await open_session(client.http, initial_state={"a": 1, "b": {"x": 1}, "c": 3})

    response = await client.http.patch(
        f"/v1/sessions/{session['id']}/state", json={"state": {"b": {"y": 2}, "c": None, "d": 4}}
    )

    assert response.json()["state"] == {"a": 1, "b": {"y": 2}, "c": None, "d": 4}
    assert response.json()["version"] == 1


@pytest.mark.parametrize("path", ["state/history", "history"])
async def test_N09_the_history_keeps_every_version(
    client: ApiClient, clock: Clock, path: str
) -> None:
    session = await open_session(client.http, initial_state={"n": 0})
    address = f"/v1/sessions/{session['id']}"
    for n in (1, 2):
        clock.advance(timedelta(seconds=1))
        await client.http.patch(
            f"{address}/state", json={"state": {"n": n}, "reasoning": f"reason {n}"}
        )

    whole = (await client.http.get(f"{address}/{path}")).json()
    first = (await client.http.get(f"{address}/{path}", params={"limit": 2})).json()
    rest = (await client.http.get(f"{address}/{path}", params={"starting_after": 1})).json()

    def version(n: int) -> dict[str, Any]:
        at = f"2026-03-01T12:00:0{n}.000000Z"
        return {
            "object": "state",
            "session_id": session["id"],
            "version": n,
            "state": {"n": n},
            "reasoning": f"reason {n}" if n else None,
            "created_at": at,
            "updated_at": at,
        }

    versions = [version(2), version(1), version(0)]
    page = {"object": "list", "data": versions, "has_more": False, "first_id": 2, "last_id": 0}
    assert whole == page
    assert first == {**page, "data": versions[:2], "has_more": True, "last_id": 1}
    assert rest == {**page, "data": versions[2:], "first_id": 0}


@pytest.mark.parametrize("path", ["state/rollback", "rollback"])
async def test_N09_a_rollback_has_the_fields_of_both_schemas(
    client: ApiClient, clock: Clock, path: str
) -> None:
    session = await open_session(client.http, initial_state={"n": 0})
    address = f"/v1/sessions/{session['id']}"
    await client.http.put(f"{address}/state", json={"state": {"m": 1}})
    clock.advance(timedelta(seconds=5))

    response = await client.http.post(f"{address}/{path}", json={"version": 0})

    state = response.json()
    assert response.status_code == 200
    assert state == {
        "object": "state",
        "session_id": session["id"],
        "version": 2,
        "state": {"n": 0},
        "reasoning": None,
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:05.000000Z",
        "success": True,
        "new_version": 2,
        "restored_from_version": 0,
        "trace_id": state["trace_id"],
    }
    trace = (await client.http.get(f"/v1/traces/{state['trace_id']}")).json()
    assert (trace["action"], trace["details"]) == ("state.rolled_back", {"version": 2})
    assert (await client.http.get(f"{address}/state")).json()["state"] == {"n": 0}


@pytest.mark.parametrize("path", ["rollback", "fork"])
@pytest.mark.parametrize("version", [1, -1, 2**31, 2**62, "0", True, 1.0])
async def test_N09_an_unknown_version_is_rejected(
    client: ApiClient, path: str, version: Any
) -> None:
    session = await open_session(client.http, initial_state={"n": 0})

    response = await client.http.post(
        f"/v1/sessions/{session['id']}/{path}", json={"version": version}
    )

    assert error_of(response) == (400, "invalid_request", "version")


@pytest.mark.parametrize(
    ("body", "state", "version"),
    [
        (None, {"n": 1}, 1),
        ({}, {"n": 1}, 1),
        ({"version": None}, {"n": 1}, 1),
        ({"version": 0}, {"n": 0}, 0),
    ],
)
async def test_N09_a_fork_starts_with_a_state_of_its_origin(
    client: ApiClient,
    clock: Clock,
    body: dict[str, Any] | None,
    state: dict[str, Any],
    version: int,
) -> None:
    origin = await open_session(
        client.http, user_id="ada", initial_state={"n": 0}, metadata={"a": 1}, ttl_seconds=60
    )
    address = f"/v1/sessions/{origin['id']}"
    await client.http.put(f"{address}/state", json={"state": {"n": 1}})
    await create_memory(client.http, "Ada lives in London", origin)
    clock.advance(timedelta(seconds=5))

    response = await client.http.post(f"{address}/fork", json=body)

    fork = response.json()
    assert response.status_code == 201
    assert fork["id"] != origin["id"]
    assert fork == {
        **origin,
        "id": fork["id"],
        "created_at": "2026-03-01T12:00:05.000000Z",
        "updated_at": "2026-03-01T12:00:05.000000Z",
        "metadata": {"a": 1, "forked_from": origin["id"], "forked_version": version},
        "state": state,
        "ttl_expires_at": "2026-03-01T12:01:05.000000Z",
    }


async def test_N09_concurrent_updates_are_all_stored(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}/state"

    responses = await asyncio.gather(
        *(client.http.patch(address, json={"state": {f"key {n}": n}}) for n in range(8))
    )

    assert sorted(each.json()["version"] for each in responses) == list(range(1, 9))
    assert (await client.http.get(address)).json()["state"] == {f"key {n}": n for n in range(8)}


async def test_N12_a_turn_is_stored_completely_and_numbered_from_one(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}/turns"
    body = {
        "input": {"type": "tool_call", "content": "look", "tool_metadata": {"name": "find"}},
        "output": {"type": "tool_response", "content": "found", "output": [1, {"a": None}]},
        "reasoning": "because",
        "metadata": {"ms": 12},
    }

    response = await client.http.post(address, json=body)

    turn = response.json()
    assert response.status_code == 201
    assert re.fullmatch(r"turn_[A-Za-z0-9]{12}", turn["id"])
    assert turn == {
        "object": "turn",
        "id": turn["id"],
        "session_id": session["id"],
        "turn_number": 1,
        **body,
        "created_at": "2026-03-01T12:00:00.000000Z",
    }
    assert (await client.http.get(address)).json()["data"] == [turn]


async def test_N11_N12_a_turn_accepts_plain_text_and_nulls(client: ApiClient) -> None:
    session = await open_session(client.http)
    body = {"input": "hi", "output": {"content": "hello"}, "reasoning": None, "metadata": None}

    response = await client.http.post(f"/v1/sessions/{session['id']}/turns", json=body)

    turn = response.json()
    assert turn["input"] == {"type": "text", "content": "hi"}
    assert turn["output"] == {"type": "text", "content": "hello"}
    assert (turn["reasoning"], turn["metadata"]) == (None, {})


async def test_N03_N12_turns_are_listed_newest_first_and_paged(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}/turns"
    made: list[dict[str, Any]] = []
    for n in range(5):
        body = {"input": f"question {n}", "output": f"answer {n}"}
        made.insert(0, (await client.http.post(address, json=body)).json())

    first = (await client.http.get(address, params={"limit": 3})).json()
    rest = (await client.http.get(address, params={"starting_after": first["last_id"]})).json()

    assert [each["turn_number"] for each in made] == [5, 4, 3, 2, 1]
    assert first == {
        "object": "list",
        "data": made[:3],
        "has_more": True,
        "first_id": made[0]["id"],
        "last_id": made[2]["id"],
    }
    assert rest == {
        "object": "list",
        "data": made[3:],
        "has_more": False,
        "first_id": made[3]["id"],
        "last_id": made[4]["id"],
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": {}}, "input.content"),
        ({"output": {"content": 7}}, "output.content"),
        ({"output": {"content": "a", "type": ""}}, "output.type"),
        ({"reasoning": 7}, "reasoning"),
        ({"metadata": []}, "metadata"),
    ],
)
async def test_N12_an_invalid_turn_is_rejected(
    client: ApiClient, fields: dict[str, Any], param: str
) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}/turns"

    response = await client.http.post(address, json={"input": "hi", "output": "hello", **fields})

    assert error_of(response) == (400, "invalid_request", param)
    assert (await client.http.get(address)).json()["data"] == []


async def test_N12_concurrent_turns_are_numbered_without_gaps(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}/turns"

    responses = await asyncio.gather(
        *(client.http.post(address, json={"input": f"{n}", "output": "ok"}) for n in range(8))
    )

    assert sorted(each.json()["turn_number"] for each in responses) == list(range(1, 9))


async def test_N12_a_turn_of_another_session_is_not_a_valid_cursor(client: ApiClient) -> None:
    sessions = [await open_session(client.http), await open_session(client.http)]
    turns = [
        await client.http.post(
            f"/v1/sessions/{each['id']}/turns", json={"input": "hi", "output": "hello"}
        )
        for each in sessions
    ]

    response = await client.http.get(
        f"/v1/sessions/{sessions[0]['id']}/turns", params={"starting_after": turns[1].json()["id"]}
    )

    assert response.status_code == 400
    assert response.json() == error_body(
        "invalid_request",
        "`starting_after` is not the id of a turn of this session.",
        param="starting_after",
    )
