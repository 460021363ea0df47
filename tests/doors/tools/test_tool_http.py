"""What only `/v1/tools` shows: the list, the statuses, the envelope."""

import pytest

from recollect.domain import Caller, Right
from recollect.doors.tools.tools import TOOLS, TOOLS_BY_PROCESS, tools_for
from recollect.engine.core import Engine
from recollect.server import Server
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, serve, visit
from tests.support.tools import Object

pytestmark = pytest.mark.anyio

NAMES = ["memory_save", "memory_recall", "memory_delete"]


def problem(kind: str, message: str) -> Object:
    return {"error": {"message": message, "type": kind}}


async def test_R228_the_tools_are_for_branches_cortex_and_compaction(visitor: Visitor) -> None:
    offered: dict[str, list[str]] = {}
    for process in TOOLS_BY_PROCESS:
        answer = await visitor.http.get("/v1/tools", params={"process": process})
        offered[process] = [each["name"] for each in answer.json()["mcp"]]

    assert offered == {"branch": NAMES, "cortex": NAMES, "compaction": NAMES, "channel": []}
    assert [tool.name for tool in tools_for(None)] == NAMES


async def test_the_list_has_both_forms_clients_know(visitor: Visitor) -> None:
    answer = (await visitor.http.get("/v1/tools")).json()

    assert [each["function"]["name"] for each in answer["openai"]] == NAMES
    assert [each["name"] for each in answer["mcp"]] == NAMES
    for function, tool in zip(answer["openai"], answer["mcp"], strict=True):
        assert function == {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["inputSchema"],
            },
        }
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert "$ref" not in str(tool)
        assert "null" not in str(tool["inputSchema"])


async def test_the_schema_states_the_documents_defaults_and_limits(visitor: Visitor) -> None:
    answer = (await visitor.http.get("/v1/tools")).json()

    schemas = {each["name"]: each["inputSchema"] for each in answer["mcp"]}
    save, found = schemas["memory_save"], schemas["memory_recall"]["properties"]
    assert (save["required"], save["properties"]["memory_type"]["default"]) == (["content"], "fact")
    link = save["properties"]["associations"]["items"]["properties"]
    assert (link["relation_type"]["default"], link["weight"]["default"]) == ("related_to", 0.5)
    assert {name: found[name]["default"] for name in ("max_results", "mode", "sort_by")} == {
        "max_results": 10,
        "mode": "hybrid",
        "sort_by": "recent",
    }
    assert (found["max_results"]["minimum"], found["max_results"]["maximum"]) == (1, 50)
    assert schemas["memory_delete"]["required"] == ["memory_id"]


async def test_an_unknown_tool_or_process_is_told_so(visitor: Visitor) -> None:
    tool = await visitor.http.post("/v1/tools/memory_erase_all", json={})
    process = await visitor.http.get("/v1/tools", params={"process": "kitchen"})
    method = await visitor.http.get("/v1/tools/memory_save")

    assert (tool.status_code, tool.json()) == (404, problem("not_found", "There is no such route."))
    assert process.status_code == 400
    assert "`cortex`" in process.json()["error"]["message"]
    assert (method.status_code, method.headers["allow"]) == (405, "POST")


async def test_errors_have_their_status_and_one_envelope(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    reader = await key_for(engine, visitor.caller.workspace_id, rights=[Right.READ])
    http = visitor.http
    path = "/v1/tools/memory_save"
    as_reader = {"X-API-Key": reader}

    async with visit(server) as nobody:
        no_key = await nobody.post(path, json={"content": "x"})
    denied = await http.post(path, json={"content": "x"}, headers=as_reader)
    broken = await http.post(path, content="{", headers={"content-type": "application/json"})
    text = await http.post(path, content="hi", headers={"content-type": "text/plain"})
    listed = await http.post(path, json=[1])
    large = await http.post(path, json={"content": "x" * (1024 * 1024)})

    answers = (no_key, denied, broken, text, listed, large)
    assert [(each.status_code, each.json()["error"]["type"]) for each in answers] == [
        (401, "authentication_error"),
        (403, "permission_error"),
        (400, "tool_error"),
        (415, "invalid_request"),
        (400, "tool_error"),
        (413, "payload_too_large"),
    ]
    assert no_key.headers["www-authenticate"] == "Bearer"
    assert denied.json() == problem("permission_error", "This key lacks the `write` right.")


async def test_too_many_requests_say_when_to_try_again(engine: Engine, caller: Caller) -> None:
    key = await key_for(engine, caller.workspace_id)
    async with visit(
        serve(engine, rate_per_minute=1, rate_burst=1), authorization=f"Bearer {key}"
    ) as http:
        await http.get("/v1/tools")
        answer = await http.get("/v1/tools")

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert answer.json()["error"]["type"] == "rate_limit_error"


async def test_a_save_repeated_with_its_key_is_one_memory(visitor: Visitor) -> None:
    again = {"Idempotency-Key": "once"}

    answers = [
        await visitor.http.post("/v1/tools/memory_save", json={"content": "x"}, headers=again)
        for _ in range(2)
    ]

    assert answers[0].json() == answers[1].json()
    found = await visitor.http.post("/v1/tools/memory_recall", json={"mode": "recent"})
    assert found.json()["total_found"] == 1


async def test_S97_a_bug_in_a_tool_is_masked(
    visitor: Visitor, embedder: StubEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def burst(*_: object, **__: object) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(embedder, "embed", burst)

    answer = await visitor.http.post("/v1/tools/memory_save", json={"content": "x"})

    assert answer.status_code == 500
    assert answer.json() == problem("internal_error", "Something went wrong on our side.")


async def test_each_surface_has_its_own_document(visitor: Visitor) -> None:
    documents = {
        name: (await visitor.http.get(f"/openapi/{name}.json")).json()
        for name in ("tools", "agents", "mcp")
    }

    assert set(documents["tools"]["paths"]) == {
        "/v1/tools",
        *(f"/v1/tools/{name}" for name in TOOLS),
    }
    assert set(documents["mcp"]["paths"]) == {"/mcp", "/mcp/"}
    assert "/agents/memories/graph/neighbors" in documents["agents"]["paths"]
    page = await visitor.http.get("/docs")
    assert page.status_code == 200
    for name in documents:
        assert page.text.count(f'href="#{name}"') == page.text.count(f'id="{name}"') == 1
