"""`PUT /agents/memories/{id}`: what is written back as it was shown changes nothing."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain import Caller, Memory, MemoryId, OrgId, UserId, WorkspaceId, new_code
from recollect.doors.tools.agent_wire import MemoryChange, from_memory, to_change
from recollect.engine.change import Change
from recollect.engine.core import Engine
from recollect.engine.save import KINDS, kind_of
from recollect.engine.spaces import no_beat
from recollect.engine.wear import wear_down
from recollect.server import Server
from tests.support import alumia, statebase
from tests.support.clock import Clock
from tests.support.tools import Object, row

pytestmark = pytest.mark.anyio

A_TIME = datetime(2026, 3, 1, tzinfo=UTC)
SHARES = st.floats(min_value=0, max_value=1)


@pytest.fixture
async def http(
    engine: Engine, caller: Caller, server: Server
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with alumia.client_of(engine, server, caller) as found:
        found.headers["X-API-Key"] = found.headers["Authorization"].split()[1]
        yield found


async def shown(http: httpx2.AsyncClient) -> list[Object]:
    answer = await http.get("/agents/memories", params={"agent_id": "default"})
    return answer.json()["memories"]


async def put(http: httpx2.AsyncClient, memory_id: str, **fields: Any) -> Object:
    answer = await http.put(
        f"/agents/memories/{memory_id}", params={"agent_id": "default"}, json=fields
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["memory"]


async def a_month(engine: Engine, caller: Caller, clock: Clock) -> None:
    clock.advance(timedelta(days=20))
    await wear_down(engine, caller.workspace_id, no_beat)


async def test_a_memory_of_any_door_written_back_as_it_is_shown_is_what_it_was(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    await statebase.remember(http, "Refunds take five days", type="billing", importance=0.37)
    await alumia.kept(http, "Ana lives in Oslo", category="Fact ", importance=7, scope="global")
    await http.post("/v1/tools/memory_save", json={"content": "Tea at four", "tags": ["tea"]})
    await a_month(engine, caller, clock)
    listed = await shown(http)
    before = [await row(engine, each["id"]) for each in listed]

    answers = [await put(http, each["id"], **each) for each in listed]

    assert answers == listed
    assert [await row(engine, each["id"]) for each in listed] == before
    assert len(listed) == 3


async def test_the_plain_door_wears_importance_no_further_either(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    await a_month(engine, caller, clock)
    [faded] = (await http.get("/v1/memories")).json()["data"]
    [listed] = await shown(http)
    before = await row(engine, listed["id"])

    path = f"/v1/memories/{faded['id']}"
    answer = await http.patch(path, json={"importance": faded["importance"]})

    assert answer.status_code == 200
    assert 0 < faded["importance"] < before["importance_base"] == 0.5
    assert await row(engine, listed["id"]) == before


async def test_the_importance_shown_is_worn_and_writing_it_back_wears_it_no_further(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    made = await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    memory_id = made.json()["memory_id"]
    for _ in range(3):
        await a_month(engine, caller, clock)
        [each] = await shown(http)

        await put(http, memory_id, content="Tea at five", importance=each["importance"])

    stored = await row(engine, memory_id)
    assert (stored["content"], stored["importance_base"]) == ("Tea at five", 0.5)
    assert 0.2 < stored["importance"] < 0.5


async def test_another_type_or_importance_than_the_one_shown_is_a_change(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    made = await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    memory_id = made.json()["memory_id"]
    await a_month(engine, caller, clock)

    answer = await put(http, memory_id, memory_type="event", importance=0.5)

    stored = await row(engine, memory_id)
    assert (answer["memory_type"], answer["importance"]) == ("event", 0.5)
    assert (stored["category"], stored["importance"], stored["importance_base"]) == (
        "event",
        0.5,
        0.5,
    )


@given(
    st.text(min_size=1),
    st.none() | st.text() | st.sampled_from(sorted(KINDS)) | st.sampled_from(["Fact", " goal "]),
    SHARES,
    SHARES,
)
def test_whatever_is_kept_writing_back_what_is_shown_asks_for_no_change(
    content: str, category: str | None, importance: float, base: float
) -> None:
    memory = Memory(
        id=MemoryId(UUID(int=1)),
        code=new_code(),
        workspace_id=WorkspaceId(UUID(int=2)),
        org_id=OrgId(UUID(int=3)),
        user_id=UserId(UUID(int=4)),
        content=content,
        category=category,
        kind=kind_of(category),
        importance=importance,
        importance_base=base,
        created_at=A_TIME,
        updated_at=A_TIME,
    )
    sent = MemoryChange.model_validate_json(from_memory(memory).model_dump_json())

    assert to_change(sent, memory) == Change()
