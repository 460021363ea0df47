"""What an export holds, what it does not, and how it arrives on disk."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from recollect.domain import Caller, parse_ref
from recollect.engine.core import Engine
from recollect.engine.exports import choices_of, leaving, own_choices
from recollect.errors import Conflict, Invalid, NotFound, RateLimited
from recollect.server import Server
from recollect.trade.archive import LINES, write, writing
from recollect.trade.errors import Unreadable
from tests.support.alumia import client_of, colleague, kept, new_project
from tests.support.clock import Clock
from tests.support.house import neighbour, new_caller
from tests.support.statebase import open_session, remember
from tests.support.trade import export, lines_of

pytestmark = pytest.mark.anyio


def texts(path: Path) -> set[str]:
    return {each["content"] for each in lines_of(path) if each["type"] == "memory"}


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def test_a_users_part_a_persons_and_a_threads_hold_nothing_of_others(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    other = await colleague(engine, caller)
    stranger = await new_caller(engine)
    project = await new_project(engine, caller, other)
    async with client_of(engine, server, caller) as http:
        talk = await open_session(http, user_id="ada")
        await remember(http, "said by the first", talk)
        await kept(http, "the first one's project", scope="project", projectId=project)
        await http.post("/api/v1/learning", json={"category": "role", "insight": "of the first"})
    async with client_of(engine, server, other) as http:
        theirs = await open_session(http, user_id="grace")
        await remember(http, "said by the second", theirs)
        await kept(http, "the second's own")
        await http.post("/api/v1/learning", json={"category": "role", "insight": "of the second"})
    async with client_of(engine, server, stranger) as http:
        await kept(http, "of another org")

    whole = await export(engine, tmp_path / "whole.zip", caller)
    user = await export(engine, tmp_path / "user.zip", caller, user=str(caller.user_id))
    person = await export(engine, tmp_path / "person.zip", caller, subject="grace")
    thread = await export(
        engine, tmp_path / "thread.zip", caller, thread=parse_ref(talk["id"], "sess_")
    )

    first = {"said by the first", "the first one's project"}
    assert texts(whole) == first | {"said by the second", "the second's own"}
    assert texts(user) == first
    assert texts(person) == {"said by the second"}
    assert texts(thread) == {"said by the first"}
    told = str(lines_of(user))
    assert "of the second" not in told
    assert str(other.user_id) not in told
    assert theirs["id"].removeprefix("sess_") not in told
    for path in (person, thread):
        assert "insight" not in {each["type"] for each in lines_of(path)}
    assert "of another org" not in str(lines_of(whole))


async def test_a_users_part_is_gathered_from_every_workspace_of_their_org(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    there = await neighbour(engine, caller)
    for each, text in ((caller, "at home"), (there, "next door")):
        async with client_of(engine, server, each) as http:
            await remember(http, text)

    async with client_of(engine, server, caller) as http:
        answer = await http.get("/api/v1/export")
    (tmp_path / "own.zip").write_bytes(answer.content)

    assert answer.headers["content-type"] == "application/zip"
    # Next door it is everybody's there, whom a visitor does not count among.
    assert texts(tmp_path / "own.zip") == {"at home"}
    [at_home] = await choices_of(
        engine, workspace=str(caller.workspace_id), user=str(caller.user_id)
    )
    for_each = [replace(at_home, workspace_id=each.workspace_id) for each in (caller, there)]
    with writing(tmp_path / "both.zip", replace=False) as sink:
        async with leaving(engine, for_each) as leaves:
            await write(leaves, sink)
    assert texts(tmp_path / "both.zip") == {"at home", "next door"}


async def test_an_export_is_one_moment_whatever_happens_meanwhile(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with client_of(engine, server, caller) as http:
        await remember(http, "before")
        choices = await choices_of(engine, workspace=str(caller.workspace_id))
        async with leaving(engine, choices) as leaves:
            lines = leaves.lines()
            first = await anext(lines)
            await remember(http, "after")
            rest = [line async for line in lines]

    assert first["type"] == "recollect"
    assert [line["content"] for line in rest if line["type"] == "memory"] == ["before"]
    assert rest[-1]["lines"]["memory"] == 1


async def test_what_has_ended_is_exported_only_when_asked_for(
    engine: Engine, server: Server, caller: Caller, clock: Clock, tmp_path: Path
) -> None:
    async with client_of(engine, server, caller) as http:
        gone = await kept(http, "forgotten")
        await http.delete(f"/api/v1/memories/{gone['id']}")
        soon = (clock.at + timedelta(hours=1)).isoformat()
        await kept(http, "expiring", expiresAt=soon)
        talk = await open_session(http, initial_state={"secret": 1}, ttl_seconds=3_600)
        await remember(http, "outlives its session", talk)
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


async def test_one_user_has_one_export_under_way_and_the_house_two(
    engine: Engine, caller: Caller
) -> None:
    choices = await own_choices(engine, caller)
    others = [await own_choices(engine, await new_caller(engine)) for _ in range(2)]
    async with leaving(engine, choices):
        with pytest.raises(Conflict):
            async with leaving(engine, choices):
                pass
        async with leaving(engine, others[0]):
            with pytest.raises(RateLimited):
                async with leaving(engine, others[1]):
                    pass
    async with leaving(engine, choices), leaving(engine, others[1]):
        pass


async def test_a_name_decides_the_form_and_nothing_half_written_stays(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    async with client_of(engine, server, caller) as http:
        await remember(http, "a text")
    forms = [tmp_path / name for name in ("a.zip", "a.jsonl", "a")]

    for path in forms:
        await export(engine, path, caller)

    assert [texts(path) for path in forms] == [{"a text"}] * 3
    assert (tmp_path / "a" / LINES).read_bytes().splitlines()[1:] == (
        tmp_path / "a.jsonl"
    ).read_bytes().splitlines()[1:]
    assert {path.stat().st_mode & 0o077 for path in forms} == {0}
    with pytest.raises(Unreadable), writing(forms[1], replace=False):
        pass
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "b.zip", replace=False):
        raise ZeroDivisionError
    assert names_in(tmp_path) == ["a", "a.jsonl", "a.zip"]


async def test_what_is_not_there_cannot_be_exported(engine: Engine, caller: Caller) -> None:
    where = str(caller.workspace_id)
    with pytest.raises(NotFound):
        await choices_of(engine, workspace="no such place")
    with pytest.raises(Invalid, match="There is no user"):
        await choices_of(engine, workspace=where, user="nobody")
    with pytest.raises(NotFound):
        await choices_of(engine, workspace=where, thread=parse_ref("sess_aaaaaaaaaaaa", "sess_"))
