"""What a memory is beside a session's state, and how one is stored (R177-R194)."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from recollect.domain import new_code
from recollect.engine.core import Engine
from recollect.engine.maintain import tidy
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor
from tests.support.statebase import (
    NO_MEMORY,
    NO_SESSION,
    complaint,
    found,
    listed,
    open_session,
    problem,
    remember,
    search,
)

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


async def count_memories(engine: Engine, visitor: Visitor) -> int:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT count(*) FROM memory WHERE workspace_id = %s", [visitor.caller.workspace_id]
        )
        row = await cursor.fetchone()
    assert row
    return row[0]


async def test_R177_memory_crosses_sessions_and_state_belongs_to_one(visitor: Visitor) -> None:
    ours = await open_session(visitor.http, initial_state={"step": 3})
    other = await open_session(visitor.http)
    await remember(visitor.http, "Ada lives in London", ours)

    from_anywhere = await found(visitor.http, "Ada lives in London")
    states = [
        (await visitor.http.get(f"/v1/sessions/{each['id']}/state")).json()["state"]
        for each in (ours, other)
    ]

    assert from_anywhere == ["Ada lives in London"]
    assert states == [{"step": 3}, {}]


async def test_R178_state_ends_with_its_session_and_memory_stays(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    session = await open_session(visitor.http, initial_state={"step": 3}, ttl_seconds=60)
    memory = await remember(visitor.http, "Ada lives in London", session)
    address = f"/v1/sessions/{session['id']}"

    clock.advance(timedelta(seconds=59))
    before = await visitor.http.get(address)
    clock.advance(timedelta(seconds=1))
    after = [await visitor.http.get(each) for each in (address, f"{address}/state")]

    assert before.json()["state"] == {"step": 3}
    assert [(each.status_code, each.json()) for each in after] == [(404, NO_SESSION)] * 2
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory
    assert await found(visitor.http, "Ada lives in London") == ["Ada lives in London"]


async def test_R178_housekeeping_wipes_an_ended_state_and_no_memory(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    session = await open_session(visitor.http, initial_state={"secret": "plan"}, ttl_seconds=60)
    memory = await remember(visitor.http, "Ada lives in London", session)
    said = {"input": "a secret question", "output": "a secret answer"}
    await visitor.http.post(f"/v1/sessions/{session['id']}/turns", json=said)
    clock.advance(DAY)

    await tidy(engine)

    async with engine.pool.everywhere() as db:
        values = [visitor.caller.workspace_id]
        kept = [
            await (await db.execute(query, values)).fetchall()
            for query in (
                "SELECT state, metadata FROM thread WHERE workspace_id = %s",
                "SELECT state FROM thread_state WHERE workspace_id = %s",
                "SELECT input FROM turn WHERE workspace_id = %s",
            )
        ]
    assert kept == [[({}, {})], [], []]
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R179_state_is_nested_json_read_directly(visitor: Visitor) -> None:
    state = {"cart": {"items": [{"sku": "a", "n": 2, "price": 1.5}], "ok": True}, "note": None}

    session = await open_session(visitor.http, initial_state=state)
    read = await visitor.http.get(f"/v1/sessions/{session['id']}")

    assert session["state"] == state
    assert read.json() == session


@pytest.mark.parametrize("content", [{"text": "Ada"}, 7, ["Ada"], True, 1.5])
async def test_R180_a_memory_is_flat_text(visitor: Visitor, content: Any) -> None:
    session = await open_session(visitor.http)

    answer = await visitor.http.post(
        "/v1/memory", json={"session_id": session["id"], "content": content}
    )

    assert answer.status_code == 400
    assert answer.json() == problem(
        "invalid_request",
        "`content` must be text.",
        param="content",
    )
    assert await listed(visitor.http) == []


async def test_R181_R191_a_stored_memory_is_answered_whole(visitor: Visitor, clock: Clock) -> None:
    session = await open_session(visitor.http, user_id="ada")
    body = {"session_id": session["id"], "content": "Ada lives in London"}

    answer = await visitor.http.post("/v1/memory", json=body)

    memory = answer.json()
    assert answer.status_code == 201
    assert memory == {
        "object": "memory",
        "id": memory["id"],
        "session_id": session["id"],
        "content": "Ada lives in London",
        "type": "general",
        "tags": [],
        "metadata": {},
        "created_at": "2026-03-01T12:00:00.000000Z",
        "embedding_id": memory["id"].replace("mem_", "vec_"),
        "vector_available": True,
        "user_id": "ada",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "version": 1,
        "summary": None,
        "key": None,
        "importance": 0.5,
        "pinned": False,
        "expires_at": None,
    }


@pytest.mark.parametrize("body", [{"content": "Ada"}, {"content": "Ada", "session_id": None}])
async def test_R182_a_session_is_required(visitor: Visitor, body: dict[str, Any]) -> None:
    answer = await visitor.http.post("/v1/memory", json=body)

    assert answer.status_code == 400
    assert answer.json() == problem(
        "invalid_request", "`session_id` is required.", param="session_id"
    )


@pytest.mark.parametrize("content", [{}, {"content": ""}, {"content": None}, {"content": " \n"}])
async def test_R183_content_is_required(visitor: Visitor, content: dict[str, Any]) -> None:
    session = await open_session(visitor.http)

    answer = await visitor.http.post("/v1/memory", json={"session_id": session["id"], **content})

    assert complaint(answer) == (400, "invalid_request", "content")
    assert await listed(visitor.http) == []


async def test_R184_ten_thousand_characters_of_any_width_are_kept(visitor: Visitor) -> None:
    content = "思い出🐘é" * 2_000

    memory = await remember(visitor.http, content)

    assert len(content) == 10_000
    assert memory["content"] == content
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


@pytest.mark.parametrize("letter", ["a", "é", "🐘"])
async def test_R184_R226_one_character_more_is_too_large(
    visitor: Visitor, engine: Engine, letter: str
) -> None:
    session = await open_session(visitor.http)
    body = {"session_id": session["id"], "content": letter * 10_001}

    answer = await visitor.http.post("/v1/memory", json=body)

    assert answer.status_code == 413
    assert answer.json() == problem(
        "content_too_large",
        "`content` may have at most 10,000 characters; this has 10,001.",
        param="content",
    )
    assert await count_memories(engine, visitor) == 0


@pytest.mark.parametrize("given", [{}, {"type": None}])
async def test_R185_the_type_is_general_unless_given(
    visitor: Visitor, given: dict[str, Any]
) -> None:
    memory = await remember(visitor.http, "Ada lives in London", **given)

    assert memory["type"] == "general"


@pytest.mark.parametrize("given", ["fact", "preference", "event", "policy"])
async def test_R186_the_named_types_are_kept(visitor: Visitor, given: str) -> None:
    memory = await remember(visitor.http, "Ada lives in London", type=given)

    assert memory["type"] == given
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R187_tags_are_kept_in_order(visitor: Visitor) -> None:
    tags = ["travel", "Preferences", "日本", "two words", "travel"]

    memory = await remember(visitor.http, "Ada lives in London", tags=tags)

    assert memory["tags"] == tags
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


@pytest.mark.parametrize("tags", ["travel", {"travel": True}, 7, [7], [None], [["travel"]], [""]])
async def test_R187_tags_must_be_an_array_of_texts(visitor: Visitor, tags: Any) -> None:
    session = await open_session(visitor.http)
    body = {"session_id": session["id"], "content": "Ada lives in London", "tags": tags}

    answer = await visitor.http.post("/v1/memory", json=body)

    assert complaint(answer) == (400, "invalid_request", "tags")
    assert await listed(visitor.http) == []


async def test_R188_metadata_is_kept_however_nested(visitor: Visitor) -> None:
    metadata = {
        "source": {"app": "mail", "ids": [1, 2.5, -3], "flags": {"new": True, "old": None}},
        "日本": "🐘",
        "": "an empty key",
        "largest": 2**63 - 1,
        "smallest": -(2**63),
        "huge": 1e300,
        "wide": 1e25,
        "tiny": 5e-324,
    }

    memory = await remember(visitor.http, "Ada lives in London", metadata=metadata)

    read = (await visitor.http.get(f"/v1/memory/{memory['id']}")).json()
    assert memory["metadata"] == metadata
    assert read == memory


async def test_R188_metadata_read_and_written_back_changes_nothing(visitor: Visitor) -> None:
    metadata = {"wide": 1e25, "round": 100000.0, "exact": 0.1, "list": [1e300]}
    memory = await remember(visitor.http, "Ada lives in London", metadata=metadata)
    address = f"/v1/memory/{memory['id']}"
    read = (await visitor.http.get(address)).json()

    answer = await visitor.http.patch(address, json={"metadata": read["metadata"]})

    assert answer.json() == memory


@pytest.mark.parametrize("metadata", ["source", ["source"], 7, True])
async def test_R188_metadata_must_be_an_object(visitor: Visitor, metadata: Any) -> None:
    session = await open_session(visitor.http)
    body = {"session_id": session["id"], "content": "Ada lives in London", "metadata": metadata}

    answer = await visitor.http.post("/v1/memory", json=body)

    assert complaint(answer) == (400, "invalid_request", "metadata")
    assert await listed(visitor.http) == []


@pytest.mark.parametrize("given", [{}, {"embed": None}, {"embed": True}])
async def test_R189_a_memory_is_embedded_unless_told_otherwise(
    visitor: Visitor, embedder: StubEmbedder, given: dict[str, Any]
) -> None:
    memory = await remember(visitor.http, "Ada lives in London", **given)

    assert memory["vector_available"] is True
    assert memory["embedding_id"] == memory["id"].replace("mem_", "vec_")
    assert "Ada lives in London" in embedder.asked


async def test_R190_without_embedding_a_memory_is_listed_and_never_found(
    visitor: Visitor, embedder: StubEmbedder, engine: Engine
) -> None:
    await remember(visitor.http, "Grace lives in New York")
    memory = await remember(visitor.http, "Ada lives in London", embed=False)

    by_meaning = await search(visitor.http, "Ada lives in London", threshold=0.0)
    embedder.is_down = True
    by_words = await search(visitor.http, "Ada lives in London")

    assert (memory["vector_available"], memory["embedding_id"]) == (False, None)
    assert "Ada lives in London" not in embedder.asked[:-2]
    assert [each["content"] for each in by_meaning] == ["Grace lives in New York"]
    assert memory["id"] not in {each["id"] for each in by_words}
    assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory
    assert sorted(await listed(visitor.http)) == ["Ada lives in London", "Grace lives in New York"]


async def test_R192_ids_are_mem_and_twelve_characters(visitor: Visitor) -> None:
    session = await open_session(visitor.http)
    shape = re.compile(r"mem_[A-Za-z0-9]{12}")

    made = [
        (await remember(visitor.http, f"fact {n}", session, embed=False))["id"] for n in range(50)
    ]
    more = [f"mem_{new_code()[:12]}" for _ in range(1_000)]  # where they come from

    assert all(shape.fullmatch(each) for each in made + more)
    assert len(set(made + more)) == 1_050


async def test_R193_times_are_iso_8601_in_utc(visitor: Visitor, clock: Clock) -> None:
    clock.advance(timedelta(microseconds=123_456))

    memory = await remember(visitor.http, "Ada lives in London")

    assert memory["created_at"] == "2026-03-01T12:00:00.123456Z"
    assert datetime.fromisoformat(memory["created_at"]) == clock.at


@pytest.mark.parametrize(
    "session_id", ["sess_aaaaaaaaaaaa", "nonsense", "", "sess_", "日本", "x" * 5_000]
)
async def test_R194_R225_an_unknown_session_is_not_found_and_nothing_is_kept(
    visitor: Visitor, engine: Engine, session_id: str
) -> None:
    answer = await visitor.http.post(
        "/v1/memory", json={"session_id": session_id, "content": "Ada lives in London"}
    )

    assert (answer.status_code, answer.json()) == (404, NO_SESSION)
    assert await count_memories(engine, visitor) == 0


async def test_R194_an_ended_session_takes_no_memory(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    session = await open_session(visitor.http, ttl_seconds=60)
    clock.advance(DAY)

    answer = await visitor.http.post(
        "/v1/memory", json={"session_id": session["id"], "content": "Ada lives in London"}
    )

    assert (answer.status_code, answer.json()) == (404, NO_SESSION)
    assert await count_memories(engine, visitor) == 0


async def test_a_memory_is_gone_everywhere_from_its_own_expiry_on(
    visitor: Visitor, clock: Clock
) -> None:
    session = await open_session(visitor.http)
    memory = await remember(
        visitor.http, "The code is 4711", session, expires_at="2026-03-01T14:00:00+01:00"
    )
    address = f"/v1/memory/{memory['id']}"
    before = (await visitor.http.get(address)).json()

    clock.advance(timedelta(hours=1))
    after = await visitor.http.get(address)

    assert before == memory
    assert memory["expires_at"] == "2026-03-01T13:00:00.000000Z"
    assert (after.status_code, after.json()) == (404, NO_MEMORY)
    assert await listed(visitor.http) == []
    assert await found(visitor.http, "The code is 4711") == []
    session = (await visitor.http.get(f"/v1/sessions/{session['id']}")).json()
    assert session["memory_count"] == 0


async def test_a_memory_saved_while_the_embedder_is_down_is_kept_and_says_so(
    visitor: Visitor, embedder: StubEmbedder
) -> None:
    embedder.is_down = True

    memory = await remember(visitor.http, "Ada lives in London")
    answer = await visitor.http.post("/v1/memory/search", json={"query": "London"})

    assert (memory["vector_available"], memory["embedding_id"]) == (False, None)
    assert answer.json()["degraded"] is True
    assert [each["content"] for each in answer.json()["data"]] == ["Ada lives in London"]
