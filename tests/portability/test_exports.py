"""The contents of an export, and how it is written to disk."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from recollect.core.domain import Caller, parse_ref
from recollect.core.errors import Conflict, Invalid, NotFound, RateLimited
from recollect.engine import Engine
from recollect.portability.archive import LINES, write, writing
from recollect.portability.errors import UnreadableFile
from recollect.portability.exporting import find_export_scopes, open_export, own_scope
from recollect.server import Server
from tests.support.alumia import add_colleague, client_of, new_project, save_memory
from tests.support.clock import Clock
from tests.support.export_files import export, lines_of
from tests.support.instance import in_new_workspace, new_caller
from tests.support.statebase import create_memory, open_session

pytestmark = pytest.mark.anyio


def texts(path: Path) -> set[str]:
    return {each["content"] for each in lines_of(path) if each["type"] == "memory"}


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def test_S85_an_export_of_a_user_subject_thread_or_key_contains_nothing_else(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    other = await add_colleague(engine, caller)
    outsider = await new_caller(engine)
    project = await new_project(engine, caller, other)
    async with client_of(engine, server, caller) as http:
        talk = await open_session(http, user_id="ada")
        await create_memory(http, "said by the first", talk, key="drink")
        await save_memory(http, "the first one's project", scope="project", projectId=project)
        await http.post("/api/v1/learning", json={"category": "role", "insight": "of the first"})
    async with client_of(engine, server, other) as http:
        theirs = await open_session(http, user_id="grace")
        await create_memory(http, "said by the second", theirs)
        await save_memory(http, "the second's own")
        await http.post("/api/v1/learning", json={"category": "role", "insight": "of the second"})
    async with client_of(engine, server, outsider) as http:
        await save_memory(http, "of another org")

    whole = await export(engine, tmp_path / "whole.zip", caller)
    user = await export(engine, tmp_path / "user.zip", caller, user=str(caller.user_id))
    person = await export(engine, tmp_path / "person.zip", caller, subject="grace")
    thread = await export(
        engine, tmp_path / "thread.zip", caller, thread=parse_ref(talk["id"], "sess_")
    )
    keyed = await export(engine, tmp_path / "keyed.zip", caller, key="drink")

    first = {"said by the first", "the first one's project"}
    assert texts(whole) == first | {"said by the second", "the second's own"}
    assert texts(user) == first
    assert texts(person) == {"said by the second"}
    assert texts(thread) == texts(keyed) == {"said by the first"}
    text = str(lines_of(user))
    assert "of the second" not in text
    assert str(other.user_id) not in text
    assert theirs["id"].removeprefix("sess_") not in text
    for path in (person, thread, keyed):
        assert "insight" not in {each["type"] for each in lines_of(path)}
    assert "thread" not in {each["type"] for each in lines_of(keyed)}
    assert "of another org" not in str(lines_of(whole))


async def test_an_export_of_a_user_covers_every_workspace_of_their_org(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    there = await in_new_workspace(engine, caller)
    for each, text in ((caller, "in the first"), (there, "in the second")):
        async with client_of(engine, server, each) as http:
            await create_memory(http, text)

    async with client_of(engine, server, caller) as http:
        answer = await http.get("/api/v1/export")
    (tmp_path / "own.zip").write_bytes(answer.content)

    assert answer.headers["content-type"] == "application/zip"
    # The other memory has workspace scope, which a guest in that workspace cannot see.
    assert texts(tmp_path / "own.zip") == {"in the first"}
    [home_scope] = await find_export_scopes(
        engine, workspace=str(caller.workspace_id), user=str(caller.user_id)
    )
    scopes = [replace(home_scope, workspace_id=each.workspace_id) for each in (caller, there)]
    with writing(tmp_path / "both.zip", replace=False) as sink:
        async with open_export(engine, scopes) as opened:
            await write(opened, sink)
    assert texts(tmp_path / "both.zip") == {"in the first", "in the second"}


async def test_an_export_is_a_consistent_snapshot(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with client_of(engine, server, caller) as http:
        await create_memory(http, "before")
        scopes = await find_export_scopes(engine, workspace=str(caller.workspace_id))
        async with open_export(engine, scopes) as opened:
            lines = opened.lines()
            first = await anext(lines)
            await create_memory(http, "after")
            rest = [line async for line in lines]

    assert first["type"] == "recollect"
    assert [line["content"] for line in rest if line["type"] == "memory"] == ["before"]
    assert rest[-1]["lines"]["memory"] == 1


async def test_forgotten_and_expired_memories_are_exported_only_on_request(
    engine: Engine, server: Server, caller: Caller, clock: Clock, tmp_path: Path
) -> None:
    async with client_of(engine, server, caller) as http:
        gone = await save_memory(http, "forgotten")
        await http.delete(f"/api/v1/memories/{gone['id']}")
        soon = (clock.at + timedelta(hours=1)).isoformat()
        await save_memory(http, "expiring", expiresAt=soon)
        talk = await open_session(http, initial_state={"secret": 1}, ttl_seconds=3_600)
        await create_memory(http, "outlives its session", talk)
        await http.post(f"/v1/sessions/{talk['id']}/turns", json={"input": "a", "output": "b"})
        clock.advance(timedelta(hours=2))

    usual = await export(engine, tmp_path / "usual.jsonl", caller)
    full = await export(engine, tmp_path / "full.jsonl", caller, with_ended=True)

    assert texts(usual) == {"outlives its session"}
    assert texts(full) == {"forgotten", "expiring", "outlives its session"}
    for path in (usual, full):
        lines = lines_of(path)
        [thread] = [each for each in lines if each["type"] == "thread"]
        assert (thread["state"], thread["state_version"]) == ({}, -1)
        assert {"state", "turn", "message"} & {each["type"] for each in lines} == set()


async def test_one_export_per_user_and_two_in_total_run_at_once(
    engine: Engine, caller: Caller
) -> None:
    scopes = await own_scope(engine, caller)
    others = [await own_scope(engine, await new_caller(engine)) for _ in range(2)]
    async with open_export(engine, scopes):
        with pytest.raises(Conflict):
            async with open_export(engine, scopes):
                pass
        async with open_export(engine, others[0]):
            with pytest.raises(RateLimited):
                async with open_export(engine, others[1]):
                    pass
    async with open_export(engine, scopes), open_export(engine, others[1]):
        pass


async def test_the_name_decides_the_format_and_no_partial_file_remains(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    async with client_of(engine, server, caller) as http:
        await create_memory(http, "a text")
    paths = [tmp_path / name for name in ("a.zip", "a.jsonl", "a")]

    for path in paths:
        await export(engine, path, caller)

    assert [texts(path) for path in paths] == [{"a text"}] * 3
    assert (tmp_path / "a" / LINES).read_bytes().splitlines()[1:] == (
        tmp_path / "a.jsonl"
    ).read_bytes().splitlines()[1:]
    assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    with pytest.raises(UnreadableFile), writing(paths[1], replace=False):
        pass
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "b.zip", replace=False):
        raise ZeroDivisionError
    assert names_in(tmp_path) == ["a", "a.jsonl", "a.zip"]


async def test_exporting_something_unknown_fails(engine: Engine, caller: Caller) -> None:
    where = str(caller.workspace_id)
    with pytest.raises(NotFound):
        await find_export_scopes(engine, workspace="no such workspace")
    with pytest.raises(Invalid, match="There is no user"):
        await find_export_scopes(engine, workspace=where, user="nobody")
    with pytest.raises(NotFound):
        await find_export_scopes(
            engine, workspace=where, thread=parse_ref("sess_aaaaaaaaaaaa", "sess_")
        )
