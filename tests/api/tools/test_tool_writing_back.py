"""Writing back the displayed values of a memory changes nothing."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.api.tools.agent_wire import AgentMemoryChange, from_memory, to_change
from recollect.core.domain import Caller, Memory, MemoryId, OrgId, UserId, WorkspaceId, new_code
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine
from recollect.memories.decay_job import run_decay
from recollect.memories.edit import EditMemory
from recollect.memories.save import KINDS, kind_of
from recollect.server import Server
from tests.support import alumia, statebase
from tests.support.clock import Clock
from tests.support.tools import Object, memory_row

pytestmark = pytest.mark.anyio

A_TIME = datetime(2026, 3, 1, tzinfo=UTC)
FRACTIONS = st.floats(min_value=0, max_value=1)


@pytest.fixture
async def http(
    engine: Engine, caller: Caller, server: Server
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with alumia.client_of(engine, server, caller) as found:
        found.headers["X-API-Key"] = found.headers["Authorization"].split()[1]
        yield found


async def shown(http: httpx2.AsyncClient) -> list[Object]:
    response = await http.get("/agents/memories", params={"agent_id": "default"})
    return response.json()["memories"]


async def put(http: httpx2.AsyncClient, memory_id: str, **fields: Any) -> Object:
    response = await http.put(
        f"/agents/memories/{memory_id}", params={"agent_id": "default"}, json=fields
    )
    assert response.status_code == 200, response.text
    return response.json()["memory"]


async def run_twenty_days(engine: Engine, caller: Caller, clock: Clock) -> None:
    clock.advance(timedelta(days=20))
    await run_decay(engine, caller.workspace_id, no_heartbeat)


async def test_writing_back_a_displayed_memory_changes_nothing(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    await statebase.create_memory(http, "Refunds take five days", type="billing", importance=0.37)
    await alumia.save_memory(
        http, "Ana lives in Oslo", category="Fact ", importance=7, scope="global"
    )
    await http.post("/v1/tools/memory_save", json={"content": "Tea at four", "tags": ["tea"]})
    await run_twenty_days(engine, caller, clock)
    listed = await shown(http)
    before = [await memory_row(engine, each["id"]) for each in listed]

    responses = [await put(http, each["id"], **each) for each in listed]

    assert responses == listed
    assert [await memory_row(engine, each["id"]) for each in listed] == before
    assert len(listed) == 3


async def test_writing_back_decayed_importance_over_rest_changes_nothing(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    await run_twenty_days(engine, caller, clock)
    [decayed] = (await http.get("/v1/memories")).json()["data"]
    [listed] = await shown(http)
    before = await memory_row(engine, listed["id"])

    path = f"/v1/memories/{decayed['id']}"
    response = await http.patch(path, json={"importance": decayed["importance"]})

    assert response.status_code == 200
    assert 0 < decayed["importance"] < before["importance_base"] == 0.5
    assert await memory_row(engine, listed["id"]) == before


async def test_writing_back_decayed_importance_keeps_the_base_value(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    made = await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    memory_id = made.json()["memory_id"]
    for _ in range(3):
        await run_twenty_days(engine, caller, clock)
        [each] = await shown(http)

        await put(http, memory_id, content="Tea at five", importance=each["importance"])

    stored = await memory_row(engine, memory_id)
    assert (stored["content"], stored["importance_base"]) == ("Tea at five", 0.5)
    assert 0.2 < stored["importance"] < 0.5


async def test_a_type_or_importance_that_differs_is_a_change(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, clock: Clock
) -> None:
    made = await http.post("/v1/tools/memory_save", json={"content": "Tea at four"})
    memory_id = made.json()["memory_id"]
    await run_twenty_days(engine, caller, clock)

    changed = await put(http, memory_id, memory_type="event", importance=0.5)

    stored = await memory_row(engine, memory_id)
    assert (changed["memory_type"], changed["importance"]) == ("event", 0.5)
    assert (stored["category"], stored["importance"], stored["importance_base"]) == (
        "event",
        0.5,
        0.5,
    )


@given(
    st.text(min_size=1),
    st.none() | st.text() | st.sampled_from(sorted(KINDS)) | st.sampled_from(["Fact", " goal "]),
    FRACTIONS,
    FRACTIONS,
)
def test_any_memory_written_back_as_displayed_is_no_edit(
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
    sent = AgentMemoryChange.model_validate_json(from_memory(memory).model_dump_json())

    assert to_change(sent, memory) == EditMemory()
