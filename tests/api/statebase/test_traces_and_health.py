"""Traces (N13), health (N14) and metrics."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect import __version__
from recollect.engine import Engine
from recollect.models.embedder_registry import Embedders
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import ApiClient, connect, key_for, make_server, open_engine
from tests.support.statebase import create_memory, error_of, open_session

pytestmark = pytest.mark.anyio


async def traces(http: httpx2.AsyncClient, **parameters: Any) -> list[dict[str, Any]]:
    response = await http.get("/v1/traces", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def test_N13_S83_every_write_adds_one_trace_with_its_actor(
    client: ApiClient, clock: Clock
) -> None:
    session = await open_session(client.http, user_id="ada")
    address = f"/v1/sessions/{session['id']}"
    memory = await create_memory(client.http, "Ada lives in London", session)
    memory_path = f"/v1/memory/{memory['id']}"
    await client.http.patch(memory_path, json={"content": "Ada moved to Paris"})
    await client.http.delete(memory_path)
    await client.http.patch(f"{address}/state", json={"state": {"a": 1}})
    await client.http.put(f"{address}/state", json={"state": {"b": 1}})
    await client.http.post(f"{address}/rollback", json={"version": 0})
    turn = await client.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})
    fork = await client.http.post(f"{address}/fork")
    await client.http.delete(address)

    recorded = [
        (each["session_id"], each["action"], each["details"]) for each in await traces(client.http)
    ]

    def details_of(version: int) -> dict[str, Any]:
        found = next(
            details
            for _, action, details in recorded
            if action.startswith("memory") and details["version"] == version
        )
        return {"memory_id": memory["id"], "version": version, "hash": found["hash"]}

    expected: list[tuple[str, str, dict[str, Any]]] = [
        (session["id"], "session.created", {}),
        (session["id"], "memory.created", details_of(1)),
        (session["id"], "memory.updated", details_of(2)),
        (session["id"], "memory.deleted", details_of(2)),
        (session["id"], "state.updated", {"version": 1}),
        (session["id"], "state.replaced", {"version": 2}),
        (session["id"], "state.rolled_back", {"version": 3}),
        (session["id"], "turn.created", {"turn_id": turn.json()["id"]}),
        (fork.json()["id"], "session.created", {}),
        (session["id"], "session.deleted", {}),
    ]
    assert sorted(recorded, key=str) == sorted(expected, key=str)
    prefix = "_".join(client.key.split("_")[:2])
    assert {each["actor"] for each in await traces(client.http)} == {prefix}


async def test_N13_reads_and_failed_requests_add_no_trace(client: ApiClient) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    before = await traces(client.http)

    await client.http.get(f"/v1/memory/{memory['id']}")
    await client.http.get("/v1/memory")
    await client.http.post("/v1/memory/search", json={"query": "Ada"})
    await client.http.post("/v1/memory", json={"content": "no session"})
    await client.http.delete("/v1/memory/mem_aaaaaaaaaaaa")

    assert await traces(client.http) == before


async def test_N03_N13_S83_a_trace_contains_ids_but_no_text(client: ApiClient) -> None:
    session = await open_session(client.http, user_id="ada")
    memory = await create_memory(client.http, "Ada lives in London", session)

    response = await client.http.get("/v1/traces", params={"action": "memory.created"})

    [trace] = response.json()["data"]
    assert response.json() == {
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
        "actor": "_".join(client.key.split("_")[:2]),
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "details": {
            "memory_id": memory["id"],
            "version": 1,
            "hash": trace["details"]["hash"],
        },
        "metadata": {},
    }
    assert "London" not in response.text
    assert (await client.http.get(f"/v1/traces/{trace['id']}")).json() == trace


async def test_N13_traces_can_be_filtered_and_paged(client: ApiClient, clock: Clock) -> None:
    by_ada = await open_session(client.http, user_id="ada")
    clock.advance(timedelta(hours=1))
    by_grace = await open_session(client.http, user_id="grace")
    clock.advance(timedelta(hours=1))
    await create_memory(client.http, "Ada lives in London", by_ada)
    everything = await traces(client.http)

    async def seen(**parameters: Any) -> list[int]:
        return [everything.index(each) for each in await traces(client.http, **parameters)]

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


async def test_N13_the_traces_of_a_deleted_session_stay(client: ApiClient) -> None:
    session = await open_session(client.http)
    await client.http.delete(f"/v1/sessions/{session['id']}")

    recorded = await traces(client.http, session_id=session["id"])

    assert [each["action"] for each in recorded[::-1]] in (
        ["session.created", "session.deleted"],
        ["session.deleted", "session.created"],  # in the same instant
    )


@pytest.mark.parametrize("after", ["nonsense", "trace_00000000000000000000000000000000", ""])
async def test_N13_an_unknown_starting_after_is_rejected(client: ApiClient, after: str) -> None:
    response = await client.http.get("/v1/traces", params={"starting_after": after})

    assert error_of(response) == (400, "invalid_request", "starting_after")


async def test_N14_health_reports_the_state_of_each_service(server: Server, engine: Engine) -> None:
    async with connect(server) as http:
        overview = await http.get("/health")
        live = await http.get("/health/live")
        ready = await http.get("/health/ready")

    assert overview.status_code == 200
    assert overview.json() == {
        "status": "healthy",
        "timestamp": "2026-03-01T12:00:00Z",
        "version": __version__,
        "uptime_seconds": overview.json()["uptime_seconds"],
        "services": {"database": "ok", "embedder": "ok", "learning": "ok"},
    }
    assert overview.json()["uptime_seconds"] >= 0
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "ok", "services": {"database": "ok"}},
    )


async def test_N14_without_an_embedder_the_server_is_degraded_but_ready(
    server: Server, embedder: StubEmbedder
) -> None:
    embedder.is_down = True

    async with connect(server) as http:
        overview = await http.get("/health")
        ready = await http.get("/health/ready")

    assert (overview.status_code, ready.status_code) == (200, 200)
    assert overview.json()["status"] == "degraded"
    assert overview.json()["services"] == {
        "database": "ok",
        "embedder": "unavailable",
        "learning": "ok",
    }


async def test_N14_a_server_that_shuts_down_is_live_but_not_ready(server: Server) -> None:
    server.health.is_shutting_down = True

    async with connect(server) as http:
        ready = await http.get("/health/ready")
        live = await http.get("/health/live")

    assert (ready.status_code, ready.json()["status"]) == (503, "shutting_down")
    assert live.status_code == 200


async def test_N14_without_a_database_only_the_liveness_check_succeeds(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> None:
    async with open_engine(database_url, Embedders(embedder), clock) as engine:
        server = make_server(engine)
    # The pool is closed here, so no request reaches the database.
    async with connect(server, **{"X-API-Key": "rk_any"}) as http:
        responses = {
            path: await http.get(path)
            for path in ("/health", "/health/live", "/health/ready", "/v1/memory")
        }

    assert {path: each.status_code for path, each in responses.items()} == {
        "/health": 503,
        "/health/live": 200,
        "/health/ready": 503,
        "/v1/memory": 503,
    }
    assert responses["/health"].json()["services"]["database"] == "unavailable"
    assert responses["/v1/memory"].json() == {
        "error": {
            "code": "service_unavailable",
            "message": "The database is not available right now.",
            "type": "api_error",
            "param": None,
        }
    }


async def test_metrics_need_a_local_client_or_the_metrics_key(engine: Engine) -> None:
    async def status(server: Server, address: str, **headers: str) -> int:
        transport = httpx2.ASGITransport(app=server.app, client=(address, 50_000))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://recollect.test", headers=headers
        ) as http:
            return (await http.get("/metrics")).status_code

    without_key, with_key = make_server(engine), make_server(engine, metrics_key="let-me-see")

    assert [
        await status(without_key, each) for each in ("127.0.0.1", "::1", "10.0.0.7", "testclient")
    ] == [
        200,
        200,
        404,
        404,
    ]
    assert await status(without_key, "10.0.0.7", **{"X-Forwarded-For": "127.0.0.1"}) == 404
    assert await status(with_key, "127.0.0.1") == 404
    assert await status(with_key, "10.0.0.7", Authorization="Bearer let-me-in") == 404
    assert await status(with_key, "10.0.0.7", Authorization="Bearer let-me-see") == 200


async def test_S81_metrics_use_route_templates_and_contain_no_data(
    client: ApiClient, engine: Engine
) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    await client.http.get(f"/v1/memory/{memory['id']}", params={"note": "Ada"})
    await client.http.get("/v1/memory/Ada/unknown")

    text = (await client.http.get("/metrics")).text

    assert 'route="/v1/memory/{memory_id}",status="200"' in text
    assert 'route="unrouted",status="404"' in text
    assert memory["id"] not in text
    assert "Ada" not in text
    assert await key_for(engine, client.caller.workspace_id) not in text
