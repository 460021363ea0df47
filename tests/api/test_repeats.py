"""Repeated requests with an `Idempotency-Key` are carried out once (N05)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.engine import Engine
from recollect.maintenance import tidy
from recollect.models.embedder import Purpose, Vector
from recollect.tenancy.keys import create_key
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    ApiClient,
    connect,
    in_new_workspace,
    key_for,
    make_server,
    new_caller,
)
from tests.support.statebase import create_memory, error_body, error_of, list_texts, open_session
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

IDEMPOTENCY_KEY = {"Idempotency-Key": "order-17"}


def content_of(response: httpx2.Response) -> tuple[int, bytes, str | None]:
    return response.status_code, response.content, response.headers.get("content-type")


async def test_N05_a_repeated_post_creates_one_row_and_replays_the_response(
    client: ApiClient, clock: Clock
) -> None:
    body = {"content": "Ada lives in London"}
    first = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
    clock.advance(timedelta(hours=23))

    again = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)

    assert first.status_code == 201
    assert content_of(again) == content_of(first)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert await list_texts(client.http) == ["Ada lives in London"]


async def test_N05_a_repeated_patch_changes_once(client: ApiClient) -> None:
    session = await open_session(client.http, initial_state={"n": 0})
    address = f"/v1/sessions/{session['id']}/state"
    body = {"state": {"n": 1}}

    first = await client.http.patch(address, json=body, headers=IDEMPOTENCY_KEY)
    again = await client.http.patch(address, json=body, headers=IDEMPOTENCY_KEY)

    assert first.json()["version"] == 1
    assert content_of(again) == content_of(first)
    assert (await client.http.get(address)).json()["version"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/sessions", {"agent_id": "a"}),
        ("POST", "/v1/sessions/{session}/turns", {"input": "hi", "output": "hello"}),
        ("POST", "/v1/sessions/{session}/fork", {}),
        ("POST", "/v1/sessions/{session}/rollback", {"version": 0}),
        ("PUT", "/v1/sessions/{session}/state", {"state": {}}),
        ("PUT", "/v1/memories/{memory}", {"content": "Ada moved to Paris"}),
        ("DELETE", "/v1/memory/{memory}", None),
        ("DELETE", "/v1/sessions/{session}", None),
    ],
)
async def test_N05_every_writing_route_can_be_repeated(
    client: ApiClient, method: str, path: str, body: Any
) -> None:
    session = await open_session(client.http)
    memory = await create_memory(client.http, "Ada lives in London", session)
    address = path.format(session=session["id"], memory=memory["id"])

    first = await client.http.request(method, address, json=body, headers=IDEMPOTENCY_KEY)
    before = (await client.http.get("/v1/traces", params={"limit": 100})).json()
    again = await client.http.request(method, address, json=body, headers=IDEMPOTENCY_KEY)

    assert first.is_success
    assert content_of(again) == content_of(first)
    assert (await client.http.get("/v1/traces", params={"limit": 100})).json() == before


async def test_N05_a_response_is_stored_for_a_day(client: ApiClient, clock: Clock) -> None:
    body = {"content": "Ada lives in London"}
    first = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
    clock.advance(timedelta(days=1))

    later = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)

    assert later.json()["id"] != first.json()["id"]
    assert await list_texts(client.http) == ["Ada lives in London"] * 2


async def test_N05_housekeeping_deletes_old_responses(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    await client.http.post("/v1/memories", json={"content": "old"}, headers=IDEMPOTENCY_KEY)
    clock.advance(timedelta(hours=25))
    await client.http.post(
        "/v1/memories", json={"content": "new"}, headers={"Idempotency-Key": "b"}
    )

    await tidy(engine)

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT token FROM idempotency WHERE workspace_id = %s", [client.caller.workspace_id]
        )
        assert await cursor.fetchall() == [("b",)]


async def test_N05_deleting_a_memory_deletes_its_stored_responses(
    client: ApiClient, engine: Engine
) -> None:
    """Through any interface: one shows the memory's code, another its id."""
    bearer = {"Authorization": f"Bearer {client.key}"}
    ours = await client.http.post(
        "/v1/memories", json={"content": "Ada swims"}, headers=IDEMPOTENCY_KEY
    )
    theirs = await client.http.post(
        "/api/v1/memories", json={"value": "Ada sails"}, headers=IDEMPOTENCY_KEY | bearer
    )
    for each in (ours.json()["id"], theirs.json()["data"]["id"]):
        assert (await client.http.delete(f"/v1/memory/{each}")).status_code == 204

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT answer FROM idempotency WHERE workspace_id = %s", [client.caller.workspace_id]
        )
        assert await cursor.fetchall() == []


# Requests whose responses show the data of a session. The last response does not name the session.
IN_SESSION: list[tuple[str, str, Any]] = [
    ("PUT", "state", {"state": {"name": "Ada"}}),
    ("POST", "turns", {"input": "Ada", "output": "hello"}),
    ("POST", "context", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), IN_SESSION)
@pytest.mark.parametrize("write_id", [str, str.upper])
async def test_N05_deleting_a_session_deletes_its_stored_responses(
    client: ApiClient, engine: Engine, method: str, path: str, body: Any, write_id: Any
) -> None:
    """In whatever form the URL contains its id."""
    session = await open_session(client.http, initial_state={"name": "Ada"})
    other = await open_session(client.http, initial_state={"name": "Grace"})
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT id FROM thread WHERE workspace_id = %s AND short_code = %s",
            [client.caller.workspace_id, session["id"].removeprefix("sess_")],
        )
        [thread_id] = await cursor.fetchone() or [None]
    address = f"/v1/sessions/{write_id(str(thread_id))}"
    first = await client.http.request(
        method, f"{address}/{path}", json=body, headers=IDEMPOTENCY_KEY
    )
    stays = f"/v1/sessions/{other['id']}/{path}"
    kept = await client.http.request(method, stays, json=body, headers=IDEMPOTENCY_KEY)

    deleted = await client.http.delete(address, headers=IDEMPOTENCY_KEY)

    again = await client.http.request(
        method, f"{address}/{path}", json=body, headers=IDEMPOTENCY_KEY
    )
    assert "Ada" in first.text
    assert again.status_code == 404
    assert content_of(await client.http.delete(address, headers=IDEMPOTENCY_KEY)) == content_of(
        deleted
    )
    assert content_of(
        await client.http.request(method, stays, json=body, headers=IDEMPOTENCY_KEY)
    ) == content_of(kept)


@pytest.mark.parametrize(("method", "path", "body"), IN_SESSION)
async def test_N05_an_expired_session_loses_its_stored_responses(
    client: ApiClient, engine: Engine, clock: Clock, method: str, path: str, body: Any
) -> None:
    initial = {"name": "Ada"}
    session = await open_session(client.http, initial_state=initial, ttl_seconds=3600)
    address = f"/v1/sessions/{session['id']}/{path}"
    first = await client.http.request(method, address, json=body, headers=IDEMPOTENCY_KEY)
    clock.advance(timedelta(hours=2))

    await tidy(engine)

    again = await client.http.request(method, address, json=body, headers=IDEMPOTENCY_KEY)
    assert "Ada" in first.text
    assert again.status_code == 404


async def test_N05_the_same_key_for_another_request_is_a_permanent_conflict(
    client: ApiClient,
) -> None:
    await client.http.post(
        "/v1/memories", json={"content": "Ada lives in London"}, headers=IDEMPOTENCY_KEY
    )

    other = await client.http.post(
        "/v1/memories", json={"content": "Ada moved"}, headers=IDEMPOTENCY_KEY
    )

    assert other.status_code == 409
    assert other.json() == error_body(
        "conflict", "This `Idempotency-Key` was used for another request."
    )
    assert other.headers["x-should-retry"] == "false"
    assert await list_texts(client.http) == ["Ada lives in London"]


@pytest.mark.parametrize("key", ["", "a" * 256])
async def test_N05_a_key_has_1_to_255_characters(client: ApiClient, key: str) -> None:
    response = await client.http.post(
        "/v1/memories", json={"content": "Ada"}, headers={"Idempotency-Key": key}
    )

    assert response.status_code == 400
    assert response.json() == error_body(
        "invalid_request", "`Idempotency-Key` must have 1 to 255 characters."
    )
    assert await list_texts(client.http) == []


@pytest.mark.parametrize("key", [b"a", b"\xe9" * 255, b'a, b; c="d"', b"' OR 1=1 --", b"%00"])
async def test_N05_any_other_key_is_accepted(client: ApiClient, key: bytes) -> None:
    responses = [
        await client.http.post(
            "/v1/memories", json={"content": "Ada"}, headers={b"Idempotency-Key": key}
        )
        for _ in range(2)
    ]

    assert responses[0].status_code == 201
    assert content_of(responses[1]) == content_of(responses[0])


async def test_N05_a_key_is_valid_for_one_route(client: ApiClient) -> None:
    session = await open_session(client.http)
    body = {"content": "Ada lives in London", "session_id": session["id"]}

    made = [
        (await client.http.post(path, json=body, headers=IDEMPOTENCY_KEY)).json()["id"]
        for path in ("/v1/memory", "/v1/memories")
    ]

    assert len(set(made)) == 2


async def test_N05_reading_routes_ignore_a_key(client: ApiClient) -> None:
    before = await client.http.get("/v1/memory", headers=IDEMPOTENCY_KEY)
    await create_memory(client.http, "Ada lives in London")

    after = await client.http.get("/v1/memory", headers=IDEMPOTENCY_KEY)

    assert before.json()["data"] == []
    assert len(after.json()["data"]) == 1


async def test_N05_S48_the_same_key_of_two_api_keys_is_independent(
    client: ApiClient, engine: Engine
) -> None:
    body = {"content": "Ada lives in London"}
    others = [
        await key_for(engine, client.caller.workspace_id),
        await key_for(engine, (await in_new_workspace(engine, client.caller)).workspace_id),
        await key_for(engine, (await new_caller(engine)).workspace_id),
    ]
    async with connect(make_server(engine)) as http:
        responses = [
            await http.post(
                "/v1/memories", json=body, headers={**IDEMPOTENCY_KEY, "X-API-Key": key}
            )
            for key in (client.key, *others)
        ]

    assert [response.status_code for response in responses] == [201] * 4
    assert len({response.json()["id"] for response in responses}) == 4


async def test_N05_a_failed_request_releases_its_key(client: ApiClient, engine: Engine) -> None:
    refused = await client.http.post("/v1/memories", json={"content": ""}, headers=IDEMPOTENCY_KEY)
    unknown = await client.http.post(
        "/v1/memories",
        json={"content": "Ada", "session_id": "sess_aaaaaaaaaaaa"},
        headers=IDEMPOTENCY_KEY,
    )

    corrected = await client.http.post(
        "/v1/memories", json={"content": "Ada"}, headers=IDEMPOTENCY_KEY
    )

    assert error_of(refused)[0] == 400
    assert error_of(unknown)[0] == 404
    assert corrected.status_code == 201
    assert await list_texts(client.http) == ["Ada"]


async def test_N05_a_request_that_hits_a_bug_releases_its_key(
    client: ApiClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class BrokenError(Exception):
        pass

    async def broken(*_: Any, **__: Any) -> None:
        raise BrokenError

    with monkeypatch.context() as patch:
        patch.setattr("recollect.memories.save.postings.insert", broken)
        failed = await client.http.post(
            "/v1/memories", json={"content": "Ada"}, headers=IDEMPOTENCY_KEY
        )

    again = await client.http.post("/v1/memories", json={"content": "Ada"}, headers=IDEMPOTENCY_KEY)

    assert error_of(failed) == (500, "internal_error", None)
    assert again.status_code == 201
    assert await list_texts(client.http) == ["Ada"]


class BlockingEmbedder(StubEmbedder):
    """Blocks `embed` until the test sets `opened`; sets `reached` when a call arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        self.reached.set()
        await self.opened.wait()
        return await super().embed(texts, purpose, deadline=deadline)


class TestWhileTheFirstIsRunning:
    @pytest.fixture
    def embedder(self) -> BlockingEmbedder:
        return BlockingEmbedder()

    async def test_N05_a_repeat_during_the_first_is_a_temporary_conflict(
        self, client: ApiClient, embedder: BlockingEmbedder
    ) -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            body = {"content": "Ada lives in London"}
            first = tasks.create_task(
                client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
            )
            await embedder.reached.wait()  # the first is running

            second = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
            embedder.opened.set()
        third = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)

        assert second.status_code == 409
        assert second.json() == error_body(
            "conflict", "The first request with this key is still running."
        )
        assert "x-should-retry" not in second.headers
        assert first.result().status_code == 201
        assert content_of(third) == content_of(first.result())
        assert await list_texts(client.http) == ["Ada lives in London"]

    async def test_N05_the_key_of_a_dead_process_can_be_claimed_again(
        self, client: ApiClient, embedder: BlockingEmbedder, clock: Clock
    ) -> None:
        body = {"content": "Ada lives in London"}
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            dead = tasks.create_task(
                client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
            )
            await embedder.reached.wait()
            clock.advance(timedelta(minutes=5))
            embedder.opened.set()

            again = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)

        assert again.status_code == 201
        assert dead.done()

    async def test_N05_a_slow_request_is_rolled_back_after_a_repeat(
        self, client: ApiClient, embedder: BlockingEmbedder, clock: Clock
    ) -> None:
        body = {"content": "Ada lives in London"}
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            slow = tasks.create_task(
                client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
            )
            await embedder.reached.wait()
            clock.advance(timedelta(minutes=5))
            embedder.reached.clear()
            second = tasks.create_task(
                client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)
            )
            await embedder.reached.wait()  # both are running, and the second has the claim
            embedder.opened.set()
        third = await client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY)

        assert slow.result().status_code == 409
        assert slow.result().json() == error_body(
            "conflict", "A repeat of this request has replaced it."
        )
        assert second.result().status_code == 201
        assert content_of(third) == content_of(second.result())
        assert await list_texts(client.http) == ["Ada lives in London"]


async def test_N05_two_simultaneous_requests_create_one_row(
    client: ApiClient, engine: Engine
) -> None:
    """Both wait for a lock that the test holds, so both are in flight when it is released."""
    body = {"content": "Ada lives in London"}
    async with (
        asyncio.timeout(20),
        asyncio.TaskGroup() as tasks,
        engine.pool.everywhere() as db,
    ):
        await db.execute("LOCK TABLE idempotency IN EXCLUSIVE MODE")
        requests = [
            tasks.create_task(client.http.post("/v1/memories", json=body, headers=IDEMPOTENCY_KEY))
            for _ in range(2)
        ]
        await wait_until_both_are_blocked(engine)

    responses = [request.result() for request in requests]
    statuses = sorted(response.status_code for response in responses)
    assert statuses in ([201, 201], [201, 409])
    if statuses == [201, 201]:
        assert responses[0].content == responses[1].content
    assert await list_texts(client.http) == ["Ada lives in London"]


async def wait_until_both_are_blocked(engine: Engine) -> None:
    waiting = """
        SELECT count(*) FROM pg_locks
        WHERE NOT granted AND relation = 'idempotency'::regclass
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """

    async def are_both_blocked() -> bool:
        async with engine.pool.everywhere() as db:
            row = await (await db.execute(waiting)).fetchone()
        return bool(row and row[0] >= 2)

    await until(are_both_blocked)


async def test_N05_the_api_key_is_checked_before_a_replay(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    expiring = await create_key(
        engine,
        workspace=str(client.caller.workspace_id),
        expires_at=clock.at + timedelta(seconds=10),
    )
    headers = {**IDEMPOTENCY_KEY, "X-API-Key": expiring.text}
    async with connect(make_server(engine)) as http:
        first = await http.post("/v1/memories", json={"content": "Ada"}, headers=headers)
        clock.advance(timedelta(seconds=10))
        again = await http.post("/v1/memories", json={"content": "Ada"}, headers=headers)

    assert first.status_code == 201
    assert error_of(again) == (401, "authentication_failed", None)
