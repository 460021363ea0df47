"""Private data cannot be detected through any route of any interface or any tool.

An outsider sends the same requests to two environments. They are equal except that in the first an
owner has private data, and in the second this data does not exist. The requests cover every route
as it is, with the owner's ids at each position of an id, and with words from the private texts. All
responses must be equal: body, order, scores, counts, headers and errors. So the outsider cannot
tell existing private data from data that never existed. No response contains a planted mark, and
the owner's data does not change.
"""

import io
import json
import zipfile
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.shared.exceptions import MCPError

from recollect.api.cursors import make_cursor
from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import create_key
from tests.support.alumia import client_of
from tests.support.dashboard import connect_signed_in
from tests.support.instance import new_caller
from tests.support.isolation import rows_with
from tests.support.private_data import (
    DUPLICATE,
    MARK,
    OUTSIDERS,
    WORDS,
    Environment,
    PrivateDataRequest,
    cases,
    two_environments,
)
from tests.support.tools import mcp_client

pytestmark = pytest.mark.anyio

# Headers that differ between any two requests.
VARYING_HEADERS = {"x-request-id", "content-length", "x-statebase-latency"}
# Shown to all members of a workspace: the jobs of the whole workspace, without their owners.
WORKSPACE_WIDE = {"dashboard: GET /chat/api/jobs (as it is)"}


def shown(response: httpx2.Response) -> tuple[str, str]:
    """The head and the body of a response as text; for an archive the files in it."""
    headers = {
        name: value for name, value in response.headers.items() if name not in VARYING_HEADERS
    }
    head = f"{response.status_code} {json.dumps(headers)} "
    if response.headers.get("content-type") != "application/zip":
        return head, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    return head, "\n".join([*files, *files.values()])


async def responses_to_all(environment: Environment) -> dict[str, str]:
    """The responses to all requests of the outsider, marked where they reveal private data."""
    responses: dict[str, str] = {}
    async with (
        client_of(environment.engine, environment.server, environment.outsider) as keyed,
        await connect_signed_in(
            environment.server, environment.engine, environment.outsider
        ) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        # The dashboard first: other interfaces let the outsider name their own threads freely.
        for interface in sorted(
            environment.server.interfaces, key=lambda each: each.name != "dashboard"
        ):
            if not isinstance(interface.app, FastAPI):
                continue
            http = browser if interface.name == "dashboard" else keyed
            for case in cases(interface, environment.own, environment.foreign):
                environment.at(len(responses))
                responses[f"{interface.name}: {case}"] = await ask(http, case, environment)
    return responses


async def ask(http: httpx2.AsyncClient, case: PrivateDataRequest, environment: Environment) -> str:
    response = await http.request(
        case.route.method, case.path, params=case.query, json=case.body, files=case.files
    )
    head, body = shown(response)
    is_broken = response.status_code >= 500 and response.status_code != 503
    marks = ("BROKEN " if is_broken else "") + leak_mark(case.sent, head + body, environment)
    plain = environment.plain(body)
    if response.headers.get("content-type") == "application/zip":
        plain = "\n".join(sorted(plain.splitlines()))
    return marks + environment.plain(head) + plain


def leak_mark(sent: str, received: str, environment: Environment) -> str:
    """A prefix for a response that reveals private data; empty if it reveals none."""
    leaked = environment.leak(sent, received)
    return f"REVEALS {leaked} " if leaked else ""


def differing(first: dict[str, str], second: dict[str, str]) -> str:
    return "\n\n".join(
        f"{request}\n  with:    {first[request]}\n  without: {second.get(request)}"
        for request in first.keys() - WORKSPACE_WIDE
        if first[request] != second.get(request) or first[request].startswith(("BROKEN", "REVEALS"))
    )


@pytest.mark.parametrize("outsider", OUTSIDERS)
async def test_S41_S77_S82_responses_do_not_reveal_private_data_of_others(
    database_url: str, outsider: str
) -> None:
    async with two_environments(database_url, outsider) as (environment, empty_environment):
        before = await rows_with(environment.engine, environment.owner.workspace_id, MARK)

        responses_with, responses_without = (
            await responses_to_all(environment),
            await responses_to_all(empty_environment),
        )

        assert differing(responses_with, responses_without) == ""
        assert len(responses_with) > 400
        after = await rows_with(environment.engine, environment.owner.workspace_id, MARK)
        # There may be more rows: the outsider may have used the mark in names of their own.
        assert [row for table in before for row in before[table] if row not in after[table]] == []


@pytest.mark.parametrize("outsider", OUTSIDERS)
async def test_S75_S96_mcp_responses_do_not_reveal_private_data_of_others(
    database_url: str, outsider: str
) -> None:
    async with two_environments(database_url, outsider) as (environment, empty_environment):
        before = await rows_with(environment.engine, environment.owner.workspace_id, MARK)

        mcp_with, mcp_without = (
            await mcp_responses(environment),
            await mcp_responses(empty_environment),
        )

        assert differing(mcp_with, mcp_without) == ""
        assert await rows_with(environment.engine, environment.owner.workspace_id, MARK) == before


async def mcp_responses(environment: Environment) -> dict[str, str]:
    """The responses to the official client for every tool, resource, prompt and completion."""
    key = await create_key(
        environment.engine,
        workspace=str(environment.outsider.workspace_id),
        user=str(environment.outsider.user_id),
    )
    responses: dict[str, str] = {}
    async with environment.server.running(), mcp_client(environment.server, key.text) as client:
        for name, given in await mcp_requests(client, environment):
            environment.at(len(responses))
            sent = json.dumps(given)
            try:
                response = await getattr(client, name)(**given)
                text = response.model_dump_json()
            except MCPError as error:
                text = f"refused: {error.message}"
            text = leak_mark(sent, text, environment) + environment.plain(text)
            responses[environment.plain(f"{len(responses)} {name} {sent}")] = text
    return responses


async def mcp_requests(
    client: Client, environment: Environment
) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [
        ("list_tools", {}),
        ("list_resources", {}),
        ("list_resource_templates", {}),
        ("list_prompts", {}),
    ]
    mine, theirs = environment.own.by_name, environment.foreign.by_name
    for tool in (await client.list_tools()).tools:
        fields = tool.input_schema["properties"]
        usual = {"content": DUPLICATE, "query": WORDS, "memory_id": mine["memory_id"]}
        needed = {name: usual[name] for name in tool.input_schema.get("required", [])}
        found.append(("call_tool", {"name": tool.name, "arguments": needed}))
        for name in fields:
            if name == "associations":
                value: Any = [{"target_id": theirs["memory_id"], "relation_type": "updates"}]
            elif name in theirs and name.endswith("_id"):
                value = theirs[name]
            elif name in {"query", "content"}:
                value = WORDS
            else:
                assert not name.endswith("_id"), f"{tool.name}: what is `{name}`?"
                continue
            arguments = {**needed, name: value}
            found.append(("call_tool", {"name": tool.name, "arguments": arguments}))
    found += [
        ("read_resource", {"uri": f"memory://{theirs[name]}"})
        for name in ("memory_id", "own_memory_id", "session_id")
    ]
    for prompt in (await client.list_prompts()).prompts:
        given = {each.name: WORDS for each in prompt.arguments or []}
        found.append(("get_prompt", {"name": prompt.name, "arguments": given}))
    template = {"type": "ref/resource", "uri": "memory://{id}"}
    found.append(("complete", {"ref": template, "argument": {"name": "id", "value": "m"}}))
    return found


async def test_S42_another_users_cursor_is_as_invalid_as_an_unknown_one(database_url: str) -> None:
    """For each list with cursors: the owner's cursor, and one of an unrelated caller."""
    async with two_environments(database_url, OUTSIDERS[2]) as (environment, _):
        unrelated = await new_caller(environment.engine)
        unknown = make_cursor((environment.clock.at, unrelated.user_id), unrelated, {})
        lists = [
            (interface, path.format(**environment.own.by_name))
            for interface, path in lists_with_cursors(environment.server)
        ]
        for interface, path in lists:
            theirs = await first_cursor(environment, interface, path)
            responses = [
                await get_with_cursor(environment, interface, path, each)
                for each in (theirs, unknown)
            ]

            assert responses[0] == responses[1], path
            assert responses[0].startswith(("400 ", "422 ")), responses[0]
        assert len(lists) > 8


def lists_with_cursors(server: Server) -> list[tuple[str, str]]:
    """Every list with cursors, as interface and path."""
    found: list[tuple[str, str]] = []
    for interface in server.interfaces:
        paths: dict[str, Any] = (
            interface.app.openapi()["paths"] if isinstance(interface.app, FastAPI) else {}
        )
        for path, methods in paths.items():
            names = [each["name"] for each in methods.get("get", {}).get("parameters", [])]
            if "cursor" in names:
                found.append((interface.name, path))
    return found


async def first_cursor(environment: Environment, interface: str, path: str) -> str:
    """A cursor of the owner's: behind the first of what they are shown."""
    async with await client_for(
        environment.engine, environment.server, environment.owner, interface
    ) as http:
        response = (await http.get(path, params={"limit": 1, "pageSize": 1})).json()
    data = response.get("data", response)
    found = data.get("next_cursor") or data.get("nextCursor")
    return found or make_cursor(
        (environment.clock.at, environment.owner.user_id), environment.owner, {}
    )


async def get_with_cursor(environment: Environment, interface: str, path: str, cursor: str) -> str:
    async with await client_for(
        environment.engine, environment.server, environment.outsider, interface
    ) as http:
        asked = {"cursor": cursor, "limit": 1, "pageSize": 1}
        return "".join(shown(await http.get(path, params=asked)))


async def client_for(
    engine: Engine, server: Server, caller: Caller, interface: str
) -> httpx2.AsyncClient:
    if interface == "dashboard":
        return await connect_signed_in(server, engine, caller)
    new = await create_key(engine, workspace=str(caller.workspace_id), user=str(caller.user_id))
    headers = {"Authorization": f"Bearer {new.text}", "X-API-Key": new.text}
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app),
        base_url="http://recollect.test",
        headers=headers,
    )
