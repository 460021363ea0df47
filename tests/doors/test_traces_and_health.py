"""What was done (N13), and how the house is (N14)."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect import __version__
from recollect.engine.core import Engine
from recollect.models.registry import Embedders
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, open_house, serve, visit
from tests.support.statebase import complaint, open_session, remember

pytestmark = pytest.mark.anyio


async def traces(http: httpx2.AsyncClient, **parameters: Any) -> list[dict[str, Any]]:
    answer = await http.get("/v1/traces", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_N13_every_write_leaves_one_trace_with_its_actor(
    visitor: Visitor, clock: Clock
) -> None:
    session = await open_session(visitor.http, user_id="ada")
    address = f"/v1/sessions/{session['id']}"
    memory = await remember(visitor.http, "Ada lives in London", session)
    one = f"/v1/memory/{memory['id']}"
    await visitor.http.patch(one, json={"content": "Ada moved to Paris"})
    await visitor.http.delete(one)
    await visitor.http.patch(f"{address}/state", json={"state": {"a": 1}})
    await visitor.http.put(f"{address}/state", json={"state": {"b": 1}})
    await visitor.http.post(f"{address}/rollback", json={"version": 0})
    turn = await visitor.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})
    fork = await visitor.http.post(f"{address}/fork")
    await visitor.http.delete(address)

    left = [
        (each["session_id"], each["action"], each["details"]) for each in await traces(visitor.http)
    ]

    def about(version: int) -> dict[str, Any]:
        found = next(
            details
            for _, action, details in left
            if action.startswith("memory") and details["version"] == version
        )
        return {"memory_id": memory["id"], "version": version, "hash": found["hash"]}

    expected: list[tuple[str, str, dict[str, Any]]] = [
        (session["id"], "session.created", {}),
        (session["id"], "memory.created", about(1)),
        (session["id"], "memory.updated", about(2)),
        (session["id"], "memory.deleted", about(2)),
        (session["id"], "state.updated", {"version": 1}),
        (session["id"], "state.replaced", {"version": 2}),
        (session["id"], "state.rolled_back", {"version": 3}),
        (session["id"], "turn.created", {"turn_id": turn.json()["id"]}),
        (fork.json()["id"], "session.created", {}),
        (session["id"], "session.deleted", {}),
    ]
    assert sorted(left, key=str) == sorted(expected, key=str)
    prefix = "_".join(visitor.key.split("_")[:2])
    assert {each["actor"] for each in await traces(visitor.http)} == {prefix}


async def test_N13_reading_and_failing_leave_none(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    before = await traces(visitor.http)

    await visitor.http.get(f"/v1/memory/{memory['id']}")
    await visitor.http.get("/v1/memory")
    await visitor.http.post("/v1/memory/search", json={"query": "Ada"})
    await visitor.http.post("/v1/memory", json={"content": "no session"})
    await visitor.http.delete("/v1/memory/mem_aaaaaaaaaaaa")

    assert await traces(visitor.http) == before


async def test_N03_N13_a_trace_holds_ids_and_no_text(visitor: Visitor) -> None:
    session = await open_session(visitor.http, user_id="ada")
    memory = await remember(visitor.http, "Ada lives in London", session)

    answer = await visitor.http.get("/v1/traces", params={"action": "memory.created"})

    [trace] = answer.json()["data"]
    assert answer.json() == {
        "object": "list",
        "data": [trace],
        "has_more": False,
        "first_id": trace["id"],
        "last_id": trace["id"],
    }
    assert trace == {
        "object": "trace",
        "id": trace["id"],
        "session_id": session["id"],
        "user_id": "ada",
        "action": "memory.created",
        "actor": "_".join(visitor.key.split("_")[:2]),
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "details": {
            "memory_id": memory["id"],
            "version": 1,
            "hash": trace["details"]["hash"],
        },
        "metadata": {},
    }
    assert "London" not in answer.text
    assert (await visitor.http.get(f"/v1/traces/{trace['id']}")).json() == trace


async def test_N13_traces_are_filtered_and_paged(visitor: Visitor, clock: Clock) -> None:
    by_ada = await open_session(visitor.http, user_id="ada")
    clock.advance(timedelta(hours=1))
    by_grace = await open_session(visitor.http, user_id="grace")
    clock.advance(timedelta(hours=1))
    await remember(visitor.http, "Ada lives in London", by_ada)
    everything = await traces(visitor.http)

    async def seen(**parameters: Any) -> list[int]:
        return [everything.index(each) for each in await traces(visitor.http, **parameters)]

    assert [each["action"] for each in everything] == [
        "memory.created",
        "session.created",
        "session.created",
    ]
    assert await seen(session_id=by_ada["id"]) == [0, 2]
    assert await seen(user_id="grace") == [1]
    assert await seen(action="session.created") == [1, 2]
    assert await seen(created_after="2026-03-01T12:30:00Z") == [0, 1]
    assert await seen(created_before="2026-03-01T13:00:00Z") == [2]
    assert await seen(session_id=by_grace["id"], action="memory.created") == []
    assert await seen(session_id="nonsense") == []
    assert await seen(limit=2) == [0, 1]
    assert await seen(limit=2, starting_after=everything[1]["id"]) == [2]


async def test_N13_the_traces_of_a_deleted_session_stay(visitor: Visitor) -> None:
    session = await open_session(visitor.http)
    await visitor.http.delete(f"/v1/sessions/{session['id']}")

    left = await traces(visitor.http, session_id=session["id"])

    assert [each["action"] for each in left[::-1]] in (
        ["session.created", "session.deleted"],
        ["session.deleted", "session.created"],  # in the same instant
    )


@pytest.mark.parametrize("after", ["nonsense", "trace_00000000000000000000000000000000", ""])
async def test_N13_an_unknown_starting_point_is_refused(visitor: Visitor, after: str) -> None:
    answer = await visitor.http.get("/v1/traces", params={"starting_after": after})

    assert complaint(answer) == (400, "invalid_request", "starting_after")


async def test_N14_health_tells_how_each_part_is_doing(server: Server, engine: Engine) -> None:
    async with visit(server) as http:
        overview = await http.get("/health")
        live = await http.get("/health/live")
        ready = await http.get("/health/ready")

    assert overview.status_code == 200
    assert overview.json() == {
        "status": "healthy",
        "timestamp": "2026-03-01T12:00:00Z",
        "version": __version__,
        "uptime_seconds": overview.json()["uptime_seconds"],
        "services": {"database": "ok", "embedder": "ok"},
    }
    assert overview.json()["uptime_seconds"] >= 0
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "ok", "services": {"database": "ok"}},
    )


async def test_N14_without_an_embedder_the_house_is_degraded_and_serves(
    server: Server, embedder: StubEmbedder
) -> None:
    embedder.is_down = True

    async with visit(server) as http:
        overview = await http.get("/health")
        ready = await http.get("/health/ready")

    assert (overview.status_code, ready.status_code) == (200, 200)
    assert overview.json()["status"] == "degraded"
    assert overview.json()["services"] == {"database": "ok", "embedder": "unavailable"}


async def test_N14_a_server_that_is_leaving_is_alive_and_not_ready(server: Server) -> None:
    server.health.is_leaving = True

    async with visit(server) as http:
        ready = await http.get("/health/ready")
        live = await http.get("/health/live")

    assert (ready.status_code, ready.json()["status"]) == (503, "leaving")
    assert live.status_code == 200


async def test_N14_without_a_database_only_life_is_left(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> None:
    async with open_house(database_url, Embedders(embedder), clock) as engine:
        server = serve(engine)
    # The pool is closed: as far from a database as a process can be.
    async with visit(server, **{"X-API-Key": "rk_any"}) as http:
        answers = {
            path: await http.get(path)
            for path in ("/health", "/health/live", "/health/ready", "/v1/memory")
        }

    assert {path: each.status_code for path, each in answers.items()} == {
        "/health": 503,
        "/health/live": 200,
        "/health/ready": 503,
        "/v1/memory": 503,
    }
    assert answers["/health"].json()["services"]["database"] == "unavailable"
    assert answers["/v1/memory"].json() == {
        "error": {
            "code": "service_unavailable",
            "message": "The database is not available right now.",
            "type": "api_error",
            "param": None,
        }
    }


async def test_metrics_are_for_this_machine_or_for_the_metrics_key(engine: Engine) -> None:
    async def status(server: Server, address: str, **headers: str) -> int:
        transport = httpx2.ASGITransport(app=server.app, client=(address, 50_000))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://recollect.test", headers=headers
        ) as http:
            return (await http.get("/metrics")).status_code

    without, withkey = serve(engine), serve(engine, metrics_key="let-me-see")

    assert [
        await status(without, each) for each in ("127.0.0.1", "::1", "10.0.0.7", "testclient")
    ] == [
        200,
        200,
        404,
        404,
    ]
    assert await status(without, "10.0.0.7", **{"X-Forwarded-For": "127.0.0.1"}) == 404
    assert await status(withkey, "127.0.0.1") == 404
    assert await status(withkey, "10.0.0.7", Authorization="Bearer let-me-in") == 404
    assert await status(withkey, "10.0.0.7", Authorization="Bearer let-me-see") == 200


async def test_metrics_count_by_template_and_name_nobody(visitor: Visitor, engine: Engine) -> None:
    memory = await remember(visitor.http, "Ada lives in London")
    await visitor.http.get(f"/v1/memory/{memory['id']}", params={"note": "Ada"})
    await visitor.http.get("/v1/memory/Ada/unknown")

    text = (await visitor.http.get("/metrics")).text

    assert 'route="/v1/memory/{memory_id}",status="200"' in text
    assert 'route="unrouted",status="404"' in text
    assert memory["id"] not in text
    assert "Ada" not in text
    assert await key_for(engine, visitor.caller.workspace_id) not in text
