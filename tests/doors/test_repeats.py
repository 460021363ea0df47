"""Requests a client repeats with an `Idempotency-Key` are carried out once (N05)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.engine.maintain import tidy
from recollect.models.embed import Purpose, Vector
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, neighbour, new_caller, serve, visit
from tests.support.statebase import complaint, listed, open_session, problem, remember
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ONCE = {"Idempotency-Key": "order-17"}


def told(answer: httpx2.Response) -> tuple[int, bytes, str | None]:
    return answer.status_code, answer.content, answer.headers.get("content-type")


async def test_N05_a_repeated_post_makes_one_row_and_has_the_same_answer(
    visitor: Visitor, clock: Clock
) -> None:
    body = {"content": "Ada lives in London"}
    first = await visitor.http.post("/v1/memories", json=body, headers=ONCE)
    clock.advance(timedelta(hours=23))

    again = await visitor.http.post("/v1/memories", json=body, headers=ONCE)

    assert first.status_code == 201
    assert told(again) == told(first)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert await listed(visitor.http) == ["Ada lives in London"]


async def test_N05_a_repeated_patch_changes_once(visitor: Visitor) -> None:
    session = await open_session(visitor.http, initial_state={"n": 0})
    address = f"/v1/sessions/{session['id']}/state"
    body = {"state": {"n": 1}}

    first = await visitor.http.patch(address, json=body, headers=ONCE)
    again = await visitor.http.patch(address, json=body, headers=ONCE)

    assert first.json()["version"] == 1
    assert told(again) == told(first)
    assert (await visitor.http.get(address)).json()["version"] == 1


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
    visitor: Visitor, method: str, path: str, body: Any
) -> None:
    session = await open_session(visitor.http)
    memory = await remember(visitor.http, "Ada lives in London", session)
    address = path.format(session=session["id"], memory=memory["id"])

    first = await visitor.http.request(method, address, json=body, headers=ONCE)
    before = (await visitor.http.get("/v1/traces", params={"limit": 100})).json()
    again = await visitor.http.request(method, address, json=body, headers=ONCE)

    assert first.is_success
    assert told(again) == told(first)
    assert (await visitor.http.get("/v1/traces", params={"limit": 100})).json() == before


async def test_N05_an_answer_is_kept_for_a_day(visitor: Visitor, clock: Clock) -> None:
    body = {"content": "Ada lives in London"}
    first = await visitor.http.post("/v1/memories", json=body, headers=ONCE)
    clock.advance(timedelta(days=1))

    later = await visitor.http.post("/v1/memories", json=body, headers=ONCE)

    assert later.json()["id"] != first.json()["id"]
    assert await listed(visitor.http) == ["Ada lives in London"] * 2


async def test_N05_housekeeping_drops_answers_of_yesterday(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    await visitor.http.post("/v1/memories", json={"content": "old"}, headers=ONCE)
    clock.advance(timedelta(hours=25))
    await visitor.http.post(
        "/v1/memories", json={"content": "new"}, headers={"Idempotency-Key": "b"}
    )

    await tidy(engine)

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT token FROM idempotency WHERE workspace_id = %s", [visitor.caller.workspace_id]
        )
        assert await cursor.fetchall() == [("b",)]


async def test_N05_no_answer_is_kept_of_what_is_deleted_for_good(
    visitor: Visitor, engine: Engine
) -> None:
    """Whichever door kept it: one shows its code, another its id."""
    bearer = {"Authorization": f"Bearer {visitor.key}"}
    ours = await visitor.http.post("/v1/memories", json={"content": "Ada swims"}, headers=ONCE)
    theirs = await visitor.http.post(
        "/api/v1/memories", json={"value": "Ada sails"}, headers=ONCE | bearer
    )
    for each in (ours.json()["id"], theirs.json()["data"]["id"]):
        assert (await visitor.http.delete(f"/v1/memory/{each}")).status_code == 204

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT answer FROM idempotency WHERE workspace_id = %s", [visitor.caller.workspace_id]
        )
        assert await cursor.fetchall() == []


# Whose answers tell what is in a session; the last one without naming it.
IN_SESSION: list[tuple[str, str, Any]] = [
    ("PUT", "state", {"state": {"name": "Ada"}}),
    ("POST", "turns", {"input": "Ada", "output": "hello"}),
    ("POST", "context", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), IN_SESSION)
@pytest.mark.parametrize("spell", [str, str.upper])
async def test_N05_no_answer_is_kept_of_what_was_in_a_deleted_session(
    visitor: Visitor, engine: Engine, method: str, path: str, body: Any, spell: Any
) -> None:
    """However it was spelt in the address."""
    session = await open_session(visitor.http, initial_state={"name": "Ada"})
    other = await open_session(visitor.http, initial_state={"name": "Grace"})
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT id FROM thread WHERE workspace_id = %s AND short_code = %s",
            [visitor.caller.workspace_id, session["id"].removeprefix("sess_")],
        )
        [thread_id] = await cursor.fetchone() or [None]
    address = f"/v1/sessions/{spell(str(thread_id))}"
    told_of = await visitor.http.request(method, f"{address}/{path}", json=body, headers=ONCE)
    stays = f"/v1/sessions/{other['id']}/{path}"
    kept = await visitor.http.request(method, stays, json=body, headers=ONCE)

    deleted = await visitor.http.delete(address, headers=ONCE)

    again = await visitor.http.request(method, f"{address}/{path}", json=body, headers=ONCE)
    assert "Ada" in told_of.text
    assert again.status_code == 404
    assert told(await visitor.http.delete(address, headers=ONCE)) == told(deleted)
    assert told(await visitor.http.request(method, stays, json=body, headers=ONCE)) == told(kept)


@pytest.mark.parametrize(("method", "path", "body"), IN_SESSION)
async def test_N05_no_answer_is_kept_of_what_was_in_a_session_whose_time_is_up(
    visitor: Visitor, engine: Engine, clock: Clock, method: str, path: str, body: Any
) -> None:
    initial = {"name": "Ada"}
    session = await open_session(visitor.http, initial_state=initial, ttl_seconds=3600)
    address = f"/v1/sessions/{session['id']}/{path}"
    told_of = await visitor.http.request(method, address, json=body, headers=ONCE)
    clock.advance(timedelta(hours=2))

    await tidy(engine)

    again = await visitor.http.request(method, address, json=body, headers=ONCE)
    assert "Ada" in told_of.text
    assert again.status_code == 404


async def test_N05_the_same_key_for_another_request_is_a_lasting_conflict(
    visitor: Visitor,
) -> None:
    await visitor.http.post("/v1/memories", json={"content": "Ada lives in London"}, headers=ONCE)

    other = await visitor.http.post("/v1/memories", json={"content": "Ada moved"}, headers=ONCE)

    assert other.status_code == 409
    assert other.json() == problem(
        "conflict", "This `Idempotency-Key` was used for another request."
    )
    assert other.headers["x-should-retry"] == "false"
    assert await listed(visitor.http) == ["Ada lives in London"]


@pytest.mark.parametrize("key", ["", "a" * 256])
async def test_N05_a_key_has_1_to_255_characters(visitor: Visitor, key: str) -> None:
    answer = await visitor.http.post(
        "/v1/memories", json={"content": "Ada"}, headers={"Idempotency-Key": key}
    )

    assert answer.status_code == 400
    assert answer.json() == problem(
        "invalid_request", "`Idempotency-Key` takes 1 to 255 characters."
    )
    assert await listed(visitor.http) == []


@pytest.mark.parametrize("key", [b"a", b"\xe9" * 255, b'a, b; c="d"', b"' OR 1=1 --", b"%00"])
async def test_N05_any_other_key_will_do(visitor: Visitor, key: bytes) -> None:
    answers = [
        await visitor.http.post(
            "/v1/memories", json={"content": "Ada"}, headers={b"Idempotency-Key": key}
        )
        for _ in range(2)
    ]

    assert answers[0].status_code == 201
    assert told(answers[1]) == told(answers[0])


async def test_N05_keys_are_of_one_route(visitor: Visitor) -> None:
    session = await open_session(visitor.http)
    body = {"content": "Ada lives in London", "session_id": session["id"]}

    made = [
        (await visitor.http.post(path, json=body, headers=ONCE)).json()["id"]
        for path in ("/v1/memory", "/v1/memories")
    ]

    assert len(set(made)) == 2


async def test_N05_reading_pays_no_attention_to_a_key(visitor: Visitor) -> None:
    before = await visitor.http.get("/v1/memory", headers=ONCE)
    await remember(visitor.http, "Ada lives in London")

    after = await visitor.http.get("/v1/memory", headers=ONCE)

    assert before.json()["data"] == []
    assert len(after.json()["data"]) == 1


async def test_N05_keys_of_two_api_keys_never_meet(visitor: Visitor, engine: Engine) -> None:
    body = {"content": "Ada lives in London"}
    others = [
        await key_for(engine, visitor.caller.workspace_id),
        await key_for(engine, (await neighbour(engine, visitor.caller)).workspace_id),
        await key_for(engine, (await new_caller(engine)).workspace_id),
    ]
    async with visit(serve(engine)) as http:
        answers = [
            await http.post("/v1/memories", json=body, headers={**ONCE, "X-API-Key": key})
            for key in (visitor.key, *others)
        ]

    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 4


async def test_N05_a_failed_request_frees_its_key(visitor: Visitor, engine: Engine) -> None:
    refused = await visitor.http.post("/v1/memories", json={"content": ""}, headers=ONCE)
    unknown = await visitor.http.post(
        "/v1/memories", json={"content": "Ada", "session_id": "sess_aaaaaaaaaaaa"}, headers=ONCE
    )

    mended = await visitor.http.post("/v1/memories", json={"content": "Ada"}, headers=ONCE)

    assert complaint(refused)[0] == 400
    assert complaint(unknown)[0] == 404
    assert mended.status_code == 201
    assert await listed(visitor.http) == ["Ada"]


async def test_N05_a_request_that_broke_on_our_side_frees_its_key(
    visitor: Visitor, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class BrokenError(Exception):
        pass

    async def broken(*_: Any, **__: Any) -> None:
        raise BrokenError

    with monkeypatch.context() as patch:
        patch.setattr("recollect.engine.save.words.insert", broken)
        failed = await visitor.http.post("/v1/memories", json={"content": "Ada"}, headers=ONCE)

    again = await visitor.http.post("/v1/memories", json={"content": "Ada"}, headers=ONCE)

    assert complaint(failed) == (500, "internal_error", None)
    assert again.status_code == 201
    assert await listed(visitor.http) == ["Ada"]


class Turnstile(StubEmbedder):
    """Holds whoever embeds until the test opens it, and says that somebody is there."""

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


class TestWhileTheFirstIsUnderWay:
    @pytest.fixture
    def embedder(self) -> Turnstile:
        return Turnstile()

    async def test_N05_a_repeat_is_told_to_come_back(
        self, visitor: Visitor, embedder: Turnstile
    ) -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            body = {"content": "Ada lives in London"}
            first = tasks.create_task(visitor.http.post("/v1/memories", json=body, headers=ONCE))
            await embedder.reached.wait()  # the first is inside and has not ended

            second = await visitor.http.post("/v1/memories", json=body, headers=ONCE)
            embedder.opened.set()
        third = await visitor.http.post("/v1/memories", json=body, headers=ONCE)

        assert second.status_code == 409
        assert second.json() == problem(
            "conflict", "The first request with this key is still under way."
        )
        assert "x-should-retry" not in second.headers
        assert first.result().status_code == 201
        assert told(third) == told(first.result())
        assert await listed(visitor.http) == ["Ada lives in London"]

    async def test_N05_a_request_whose_process_died_can_be_taken_up_again(
        self, visitor: Visitor, embedder: Turnstile, clock: Clock
    ) -> None:
        body = {"content": "Ada lives in London"}
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            dead = tasks.create_task(visitor.http.post("/v1/memories", json=body, headers=ONCE))
            await embedder.reached.wait()
            clock.advance(timedelta(minutes=5))
            embedder.opened.set()

            again = await visitor.http.post("/v1/memories", json=body, headers=ONCE)

        assert again.status_code == 201
        assert dead.done()

    async def test_N05_one_that_was_only_slow_is_undone_when_a_repeat_took_its_place(
        self, visitor: Visitor, embedder: Turnstile, clock: Clock
    ) -> None:
        body = {"content": "Ada lives in London"}
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            slow = tasks.create_task(visitor.http.post("/v1/memories", json=body, headers=ONCE))
            await embedder.reached.wait()
            clock.advance(timedelta(minutes=5))
            embedder.reached.clear()
            second = tasks.create_task(visitor.http.post("/v1/memories", json=body, headers=ONCE))
            await embedder.reached.wait()  # both are inside now, and the second holds the key
            embedder.opened.set()
        third = await visitor.http.post("/v1/memories", json=body, headers=ONCE)

        assert slow.result().status_code == 409
        assert slow.result().json() == problem(
            "conflict", "A repeat of this request has taken its place."
        )
        assert second.result().status_code == 201
        assert told(third) == told(second.result())
        assert await listed(visitor.http) == ["Ada lives in London"]


async def test_N05_two_at_the_same_instant_make_one_row(visitor: Visitor, engine: Engine) -> None:
    """Both have to wait for a lock that the test holds, so both are in flight when it lets go."""
    body = {"content": "Ada lives in London"}
    async with (
        asyncio.timeout(20),
        asyncio.TaskGroup() as tasks,
        engine.pool.everywhere() as db,
    ):
        await db.execute("LOCK TABLE idempotency IN EXCLUSIVE MODE")
        twins = [
            tasks.create_task(visitor.http.post("/v1/memories", json=body, headers=ONCE))
            for _ in range(2)
        ]
        await both_wait(engine)

    answers = [twin.result() for twin in twins]
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses in ([201, 201], [201, 409])
    if statuses == [201, 201]:
        assert answers[0].content == answers[1].content
    assert await listed(visitor.http) == ["Ada lives in London"]


async def both_wait(engine: Engine) -> None:
    waiting = """
        SELECT count(*) FROM pg_locks
        WHERE NOT granted AND relation = 'idempotency'::regclass
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """

    async def do_they() -> bool:
        async with engine.pool.everywhere() as db:
            row = await (await db.execute(waiting)).fetchone()
        return bool(row and row[0] >= 2)

    await until(do_they)


async def test_N05_a_key_of_its_own_rights_is_asked_before_an_answer_is_replayed(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    expiring = await create_key(
        engine,
        workspace=str(visitor.caller.workspace_id),
        expires_at=clock.at + timedelta(seconds=10),
    )
    headers = {**ONCE, "X-API-Key": expiring.text}
    async with visit(serve(engine)) as http:
        first = await http.post("/v1/memories", json={"content": "Ada"}, headers=headers)
        clock.advance(timedelta(seconds=10))
        again = await http.post("/v1/memories", json={"content": "Ada"}, headers=headers)

    assert first.status_code == 201
    assert complaint(again) == (401, "authentication_failed", None)
