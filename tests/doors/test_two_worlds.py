"""What is private stays so on every route of every door and in every tool, whichever there are.

A stranger asks the same of two worlds that are alike, but that in the first somebody has private
things and in the second these do not exist: every route as it is, with their ids in each place an
id can stand, and in their words. Every answer must be the same, body, order, score, count, header
and error: so nothing tells a thing of theirs from one that never was. No answer holds anything
planted, and nothing of theirs changes.
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

from recollect.domain import Caller
from recollect.doors.cursors import cursor_at
from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.server import Server
from tests.support.alumia import client_of
from tests.support.dashboard import browse
from tests.support.house import new_caller
from tests.support.isolation import holding
from tests.support.tools import mcp_client
from tests.support.worlds import MARK, PERSONS, TWIN, WORDS, Case, World, cases, two_worlds

pytestmark = pytest.mark.anyio

# The rest of an answer's head: what differs between any two requests.
PASSING = {"x-request-id", "content-length", "x-statebase-latency"}
# Of the workspace as a whole, and told to everybody in it: which work waits there, without whose.
OF_THE_WORKSPACE = {"dashboard: GET /chat/api/jobs (as it is)"}


def shown(answer: httpx2.Response) -> tuple[str, str]:
    """Everything an answer says, its head and its body; of an archive what is in it."""
    told = {name: value for name, value in answer.headers.items() if name not in PASSING}
    head = f"{answer.status_code} {json.dumps(told)} "
    if answer.headers.get("content-type") != "application/zip":
        return head, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    return head, "\n".join([*files, *files.values()])


async def heard(world: World) -> dict[str, str]:
    """What a stranger is answered, request by request, and what of it tells of somebody else."""
    answers: dict[str, str] = {}
    async with (
        client_of(world.engine, world.server, world.stranger) as keyed,
        await browse(world.server, world.engine, world.stranger) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        # The page first: other doors let a stranger call threads of their own by any name.
        for door in sorted(world.server.doors, key=lambda each: each.name != "dashboard"):
            if not isinstance(door.app, FastAPI):
                continue
            http = browser if door.name == "dashboard" else keyed
            for case in cases(door, world.own, world.foreign):
                world.at(len(answers))
                answers[f"{door.name}: {case}"] = await ask(http, case, world)
    return answers


async def ask(http: httpx2.AsyncClient, case: Case, world: World) -> str:
    answer = await http.request(
        case.route.method, case.path, params=case.query, json=case.body, files=case.files
    )
    head, body = shown(answer)
    is_broken = answer.status_code >= 500 and answer.status_code != 503
    marks = ("BROKEN " if is_broken else "") + telling(case.sent, head + body, world)
    plain = world.plain(body)
    if answer.headers.get("content-type") == "application/zip":
        plain = "\n".join(sorted(plain.splitlines()))
    return marks + world.plain(head) + plain


def telling(sent: str, said: str, world: World) -> str:
    """A mark that no answer may bear: what it tells of somebody else."""
    told = world.leak(sent, said)
    return f"TELLS {told} " if told else ""


def differing(first: dict[str, str], second: dict[str, str]) -> str:
    return "\n\n".join(
        f"{request}\n  with:    {first[request]}\n  without: {second.get(request)}"
        for request in first.keys() - OF_THE_WORKSPACE
        if first[request] != second.get(request) or first[request].startswith(("BROKEN", "TELLS"))
    )


@pytest.mark.parametrize("who", PERSONS)
async def test_S41_S77_S82_a_stranger_hears_the_same_whether_private_things_exist_or_not(
    database_url: str, who: str
) -> None:
    async with two_worlds(database_url, who) as (there, without):
        before = await holding(there.engine, there.owner.workspace_id, MARK)

        heard_there, heard_without = await heard(there), await heard(without)

        assert differing(heard_there, heard_without) == ""
        assert len(heard_there) > 400
        after = await holding(there.engine, there.owner.workspace_id, MARK)
        # There may be more: what the stranger wrote down under names that they gave themselves.
        assert [row for table in before for row in before[table] if row not in after[table]] == []


@pytest.mark.parametrize("who", PERSONS)
async def test_S75_S96_a_stranger_over_mcp_hears_the_same_whether_private_things_exist_or_not(
    database_url: str, who: str
) -> None:
    async with two_worlds(database_url, who) as (there, without):
        before = await holding(there.engine, there.owner.workspace_id, MARK)

        spoken_there, spoken_without = await spoken(there), await spoken(without)

        assert differing(spoken_there, spoken_without) == ""
        assert await holding(there.engine, there.owner.workspace_id, MARK) == before


async def spoken(world: World) -> dict[str, str]:
    """What the official client gets: every tool, resource, prompt and completion there is."""
    key = await create_key(
        world.engine,
        workspace=str(world.stranger.workspace_id),
        user=str(world.stranger.user_id),
    )
    answers: dict[str, str] = {}
    async with world.server.running(), mcp_client(world.server, key.text) as client:
        for name, given in await mcp_requests(client, world):
            world.at(len(answers))
            sent = json.dumps(given)
            try:
                answer = await getattr(client, name)(**given)
                said = answer.model_dump_json()
            except MCPError as error:
                said = f"refused: {error.message}"
            said = telling(sent, said, world) + world.plain(said)
            answers[world.plain(f"{len(answers)} {name} {sent}")] = said
    return answers


async def mcp_requests(client: Client, world: World) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [
        ("list_tools", {}),
        ("list_resources", {}),
        ("list_resource_templates", {}),
        ("list_prompts", {}),
    ]
    mine, theirs = world.own.by_name, world.foreign.by_name
    for tool in (await client.list_tools()).tools:
        fields = tool.input_schema["properties"]
        usual = {"content": TWIN, "query": WORDS, "memory_id": mine["memory_id"]}
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


async def test_S42_a_cursor_of_somebody_elses_list_is_nobodys(database_url: str) -> None:
    """Of each list that has cursors: as the owner got it, and as one made for nobody at all."""
    async with two_worlds(database_url, PERSONS[2]) as (world, _):
        nobody = await new_caller(world.engine)
        made_up = cursor_at((world.clock.at, nobody.user_id), nobody, {})
        lists = [
            (door, path.format(**world.own.by_name)) for door, path in with_cursors(world.server)
        ]
        for door, path in lists:
            theirs = await first_cursor(world, door, path)
            answers = [await with_cursor(world, door, path, each) for each in (theirs, made_up)]

            assert answers[0] == answers[1], path
            assert answers[0].startswith(("400 ", "422 ")), answers[0]
        assert len(lists) > 8


def with_cursors(server: Server) -> list[tuple[str, str]]:
    """Every list that goes on behind a cursor, by its door."""
    found: list[tuple[str, str]] = []
    for door in server.doors:
        paths: dict[str, Any] = door.app.openapi()["paths"] if isinstance(door.app, FastAPI) else {}
        for path, methods in paths.items():
            names = [each["name"] for each in methods.get("get", {}).get("parameters", [])]
            if "cursor" in names:
                found.append((door.name, path))
    return found


async def first_cursor(world: World, door: str, path: str) -> str:
    """A cursor of the owner's: behind the first of what they are shown."""
    async with await client_for(world.engine, world.server, world.owner, door) as http:
        answer = (await http.get(path, params={"limit": 1, "pageSize": 1})).json()
    data = answer.get("data", answer)
    found = data.get("next_cursor") or data.get("nextCursor")
    return found or cursor_at((world.clock.at, world.owner.user_id), world.owner, {})


async def with_cursor(world: World, door: str, path: str, cursor: str) -> str:
    async with await client_for(world.engine, world.server, world.stranger, door) as http:
        asked = {"cursor": cursor, "limit": 1, "pageSize": 1}
        return "".join(shown(await http.get(path, params=asked)))


async def client_for(
    engine: Engine, server: Server, caller: Caller, door: str
) -> httpx2.AsyncClient:
    if door == "dashboard":
        return await browse(server, engine, caller)
    new = await create_key(engine, workspace=str(caller.workspace_id), user=str(caller.user_id))
    headers = {"Authorization": f"Bearer {new.text}", "X-API-Key": new.text}
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app),
        base_url="http://recollect.test",
        headers=headers,
    )
