"""`/v1/tools` only: the list, status codes and the error envelope."""

import pytest

from recollect.api.tools.tools import TOOLS
from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.server import Server
from tests.support.embedder import StubEmbedder
from tests.support.instance import ApiClient, connect, key_for, make_server
from tests.support.tools import Object, mcp_client

pytestmark = pytest.mark.anyio

NAMES = ["memory_save", "memory_recall", "memory_delete"]


def problem(kind: str, message: str) -> Object:
    return {"error": {"message": message, "type": kind}}


@pytest.mark.parametrize("process", ["branch", "cortex", "compaction"])
async def test_R228_a_branch_cortex_or_compaction_worker_gets_working_tools(
    client: ApiClient, process: str
) -> None:
    offered = (await client.http.get("/v1/tools", params={"process": process})).json()
    save, recall, delete = (each["function"]["name"] for each in offered["openai"])

    saved = await client.http.post(f"/v1/tools/{save}", json={"content": "Ada lives in Oslo"})
    memory_id = saved.json()["memory_id"]
    recalled = await client.http.post(f"/v1/tools/{recall}", json={"query": "Ada lives in Oslo"})
    deleted = await client.http.post(f"/v1/tools/{delete}", json={"memory_id": memory_id})
    after = await client.http.post(f"/v1/tools/{recall}", json={"query": "Ada lives in Oslo"})

    assert [each["name"] for each in offered["mcp"]] == [save, recall, delete] == NAMES
    assert [each["id"] for each in recalled.json()["memories"]] == [memory_id]
    assert deleted.json()["forgotten"] is True
    assert after.json()["memories"] == []


async def test_R228_a_channel_gets_no_tools_and_an_unnamed_process_gets_all(
    client: ApiClient, server: Server
) -> None:
    channel = await client.http.get("/v1/tools", params={"process": "channel"})
    unnamed = await client.http.get("/v1/tools")
    async with server.running(), mcp_client(server, client.key) as mcp:
        listed = await mcp.list_tools()

    assert channel.json() == {"openai": [], "mcp": []}
    assert [each["function"]["name"] for each in unnamed.json()["openai"]] == NAMES
    assert [each["name"] for each in unnamed.json()["mcp"]] == NAMES
    assert [each.name for each in listed.tools] == NAMES


async def test_the_list_has_the_openai_and_the_mcp_format(client: ApiClient) -> None:
    response = (await client.http.get("/v1/tools")).json()

    assert [each["function"]["name"] for each in response["openai"]] == NAMES
    assert [each["name"] for each in response["mcp"]] == NAMES
    for function, tool in zip(response["openai"], response["mcp"], strict=True):
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


async def test_the_schema_states_the_specified_defaults_and_limits(client: ApiClient) -> None:
    response = (await client.http.get("/v1/tools")).json()

    schemas = {each["name"]: each["inputSchema"] for each in response["mcp"]}
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


async def test_an_unknown_tool_or_process_is_an_error(client: ApiClient) -> None:
    tool = await client.http.post("/v1/tools/memory_erase_all", json={})
    process = await client.http.get("/v1/tools", params={"process": "kitchen"})
    method = await client.http.get("/v1/tools/memory_save")

    assert (tool.status_code, tool.json()) == (404, problem("not_found", "There is no such route."))
    assert process.status_code == 400
    assert "`cortex`" in process.json()["error"]["message"]
    assert (method.status_code, method.headers["allow"]) == (405, "POST")


async def test_errors_have_the_right_status_and_envelope(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    reader = await key_for(engine, client.caller.workspace_id, rights=[Right.READ])
    http = client.http
    path = "/v1/tools/memory_save"
    as_reader = {"X-API-Key": reader}

    async with connect(server) as anonymous:
        no_key = await anonymous.post(path, json={"content": "x"})
    denied = await http.post(path, json={"content": "x"}, headers=as_reader)
    broken = await http.post(path, content="{", headers={"content-type": "application/json"})
    text = await http.post(path, content="hi", headers={"content-type": "text/plain"})
    listed = await http.post(path, json=[1])
    large = await http.post(path, json={"content": "x" * (1024 * 1024)})

    responses = (no_key, denied, broken, text, listed, large)
    assert [(each.status_code, each.json()["error"]["type"]) for each in responses] == [
        (401, "authentication_error"),
        (403, "permission_error"),
        (400, "tool_error"),
        (415, "invalid_request"),
        (400, "tool_error"),
        (413, "payload_too_large"),
    ]
    assert no_key.headers["www-authenticate"] == "Bearer"
    assert denied.json() == problem("permission_error", "This key lacks the `write` right.")


async def test_a_rate_limited_response_has_retry_after(engine: Engine, caller: Caller) -> None:
    key = await key_for(engine, caller.workspace_id)
    async with connect(
        make_server(engine, rate_per_minute=1, rate_burst=1), authorization=f"Bearer {key}"
    ) as http:
        await http.get("/v1/tools")
        response = await http.get("/v1/tools")

    assert (response.status_code, response.headers["retry-after"]) == (429, "60")
    assert response.json()["error"]["type"] == "rate_limit_error"


async def test_a_save_repeated_with_an_idempotency_key_stores_one_memory(client: ApiClient) -> None:
    again = {"Idempotency-Key": "once"}

    responses = [
        await client.http.post("/v1/tools/memory_save", json={"content": "x"}, headers=again)
        for _ in range(2)
    ]

    assert responses[0].json() == responses[1].json()
    found = await client.http.post("/v1/tools/memory_recall", json={"mode": "recent"})
    assert found.json()["total_found"] == 1


async def test_S97_an_internal_error_is_hidden(
    client: ApiClient, embedder: StubEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(embedder, "embed", fail)

    response = await client.http.post("/v1/tools/memory_save", json={"content": "x"})

    assert response.status_code == 500
    assert response.json() == problem("internal_error", "Something went wrong on our side.")


async def test_each_interface_has_its_own_openapi_document(client: ApiClient) -> None:
    documents = {
        name: (await client.http.get(f"/openapi/{name}.json")).json()
        for name in ("tools", "agents", "mcp")
    }

    assert set(documents["tools"]["paths"]) == {
        "/v1/tools",
        *(f"/v1/tools/{name}" for name in TOOLS),
    }
    assert set(documents["mcp"]["paths"]) == {"/mcp", "/mcp/"}
    assert "/agents/memories/graph/neighbors" in documents["agents"]["paths"]
    page = await client.http.get("/docs")
    assert page.status_code == 200
    for name in documents:
        assert page.text.count(f'href="#{name}"') == page.text.count(f'id="{name}"') == 1
