"""Taking in what was exported: once, again, under new ids, broken, hostile, or only for show."""

import asyncio
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.domain import Caller, Lifecycle, Origin, Scope, new_code
from recollect.engine.core import Engine
from recollect.server import Server
from recollect.store import identity
from recollect.trade.archive import FILES, LINES
from recollect.trade.errors import Unreadable
from tests.support.alumia import client_of, colleague, kept, new_project, recalled
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import neighbour, new_caller, only, open_house
from tests.support.statebase import open_session, remember
from tests.support.tools import OverHttp, edges, rows
from tests.support.trade import Object, bring_in, export, lines_of, rows_of

pytestmark = pytest.mark.anyio

AT = "2026-03-01T12:00:00+00:00"
HEADER = {"type": "recollect", "format": 1}


@pytest.fixture
async def exported(engine: Engine, server: Server, caller: Caller, tmp_path: Path) -> Path:
    """A small workspace: a session, two linked memories, an asset, a project."""
    await new_project(engine, caller)
    async with client_of(engine, server, caller) as http:
        talk = await open_session(http, initial_state={"step": 1})
        await remember(http, "Ada drinks tea", talk)
        tools = OverHttp(http)
        first = await tools.call("memory_save", content="Ada lives in Bergen")
        linked = [{"target_id": first["memory_id"], "relation": "updates"}]
        await tools.call("memory_save", content="Ada lives in Oslo", associations=linked)
        memory = await kept(http, "Coffee at nine", key="coffee")
        path = f"/api/v1/memories/{memory['id']}/assets"
        await http.post(path, files={"file": ("a.txt", b"beans", "text/plain")})
    return await export(engine, tmp_path / "export.zip", caller)


def write_lines(path: Path, *lines: Object | str, end: bool = True) -> Path:
    told = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    told += [json.dumps({"type": "end", "lines": {}})] if end else []
    path.write_text("\n".join([json.dumps(HEADER), *told]) + "\n", encoding="utf-8")
    return path


def a_user(user_id: UUID | None = None, login: str | None = None) -> Object:
    return {"type": "user", "id": str(user_id or uuid4()), "login": login or uuid4().hex}


def a_memory(user: Object, **fields: Any) -> Object:
    return {
        "type": "memory",
        "id": str(uuid4()),
        "code": new_code(),
        "user_id": user["id"],
        "content": "a text",
        "importance": 0.5,
        "importance_base": 0.5,
        "lifecycle": "permanent",
        "scope": "workspace",
        "origin": "user",
        "created_at": AT,
        "updated_at": AT,
        **fields,
    }


def a_thread(**fields: Any) -> Object:
    base = {"id": str(uuid4()), "code": new_code(), "created_at": AT, "updated_at": AT}
    return {"type": "thread", **base, **fields}


async def test_taken_in_twice_is_taken_in_once(
    engine: Engine, caller: Caller, exported: Path
) -> None:
    there = await neighbour(engine, caller)

    first = await bring_in(engine, exported, there)
    before = await rows_of(engine, there.workspace_id)
    second = await bring_in(engine, exported, there)

    assert first.refused == second.refused == {}
    assert second.kept.total() == 0
    assert second.known == first.kept + first.known
    assert await rows_of(engine, there.workspace_id) == before


async def test_new_ids_make_a_copy_beside_what_is_there_and_only_one(
    engine: Engine, server: Server, caller: Caller, exported: Path
) -> None:
    before = await rows_of(engine, caller.workspace_id)

    first = await bring_in(engine, exported, caller, new_ids=True)
    second = await bring_in(engine, exported, caller, new_ids=True)

    after = await rows_of(engine, caller.workspace_id)
    assert first.refused == second.refused == {}
    assert second.kept.total() == 0
    for table in ("memory", "thread", "association", "asset", "asset_piece", "thread_state"):
        assert len(after[table]) == 2 * len(before[table]), table
    assert len(after["project"]) == len(before["project"])
    for name in ("id", "code"):
        assert len({row[name] for row in after["memory"]}) == len(after["memory"])
    [old, new] = sorted(await edges(engine, caller.workspace_id))
    assert not {old[0], old[2]} & {new[0], new[2]}
    texts = {row["id"]: row["content"] for row in after["memory"]}
    assert (texts[old[0]], texts[old[2]]) == (texts[new[0]], texts[new[2]])


async def test_a_dry_run_tells_what_would_be_and_changes_nothing(
    engine: Engine, caller: Caller, exported: Path
) -> None:
    there = await new_caller(engine)
    before = await rows_of(engine, there.workspace_id)

    tried = await bring_in(engine, exported, there, is_dry_run=True, owner=there.user_id)
    between = await rows_of(engine, there.workspace_id)
    done = await bring_in(engine, exported, there, owner=there.user_id)

    assert between == before
    assert (tried.kept, tried.known, tried.refused) == (done.kept, done.known, done.refused)
    assert done.kept["memory"] == 4


async def test_stopped_anywhere_it_goes_on_where_it_was(
    engine: Engine, caller: Caller, exported: Path, tmp_path: Path
) -> None:
    there = await neighbour(engine, caller)
    lines = lines_of(exported)
    part = write_lines(tmp_path / "part.jsonl", *lines[1 : len(lines) - 4], end=False)

    first = await bring_in(engine, part, there)
    second = await bring_in(engine, exported, there)

    assert [each.why for each in first.refusals] == [
        "the file was cut off: its last line is missing"
    ]
    assert second.refused == {}
    assert await rows_of(engine, there.workspace_id) == await rows_of(engine, caller.workspace_id)


async def test_two_imports_at_once_keep_everything_once(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    path = write_lines(tmp_path / "many.jsonl", user, *(a_memory(user) for _ in range(450)))

    reports = await asyncio.gather(*(bring_in(engine, path, caller) for _ in range(3)))

    assert [report.refused for report in reports] == [{}] * 3
    assert sum(report.kept["memory"] for report in reports) == 450
    assert sum(report.kept["user"] for report in reports) == 1
    [(counted,)] = await rows(
        engine, "SELECT sum(documents) FROM word_tally WHERE workspace_id = %s", caller.workspace_id
    )
    assert counted == 450


async def test_words_vectors_and_keys_work_on_what_came_in(
    engine: Engine, server: Server, caller: Caller, exported: Path, embedder: StubEmbedder
) -> None:
    there = await neighbour(engine, caller)
    embedder.asked.clear()

    await bring_in(engine, exported, there)

    assert "Coffee at nine" in embedder.asked
    async with engine.pool.everywhere() as db:
        await identity.set_workspaces(db, there.org_id, is_on=True)
    async with client_of(engine, server, there) as http:
        assert "Coffee at nine" in await recalled(http, "coffee")
        again = await kept(http, "Coffee at ten", key="coffee")
    assert [row["id"] for row in lines_of(exported) if row.get("key")] == [again["id"]]


BROKEN: list[tuple[str, Callable[[Object], Object | str]]] = [
    ("not valid JSON at character", lambda memory: json.dumps(memory)[:-1]),
    ("no JSON object", lambda _: "[1]"),
    ("not valid JSON", lambda memory: json.dumps({**memory, "importance": float("nan")})),
    ("not valid JSON", lambda _: '{"type":' + "[" * 100_000),
    ("`type` is missing", lambda memory: {**memory, "type": None}),
    ("a kind that this release does not know", lambda memory: {**memory, "type": "dream"}),
    ("`content` is missing", lambda memory: dict(list(memory.items())[:4])),
    ("`content` is null", lambda memory: {**memory, "content": None}),
    ("`content` is no text", lambda memory: {**memory, "content": 7}),
    ("`content` is empty", lambda memory: {**memory, "content": " "}),
    ("`content` is longer than 50,000 bytes", lambda memory: {**memory, "content": "x" * 50_001}),
    ("`content` is a text with a zero byte", lambda memory: {**memory, "content": "a\0b"}),
    ("`content` is no valid Unicode", lambda memory: {**memory, "content": "\ud800"}),
    ("`id` is no UUID", lambda memory: {**memory, "id": "../../etc/passwd"}),
    ("`code` is no code", lambda memory: {**memory, "code": "a'b"}),
    ("`created_at` is no ISO 8601 time", lambda memory: {**memory, "created_at": "yesterday"}),
    ("`created_at` is a time without", lambda memory: {**memory, "created_at": "2026-03-01"}),
    ("`importance` is no number from 0 to 1", lambda memory: {**memory, "importance": 2}),
    ("`access_count` is no whole number", lambda memory: {**memory, "access_count": 2**40}),
    ("`scope` is none of", lambda memory: {**memory, "scope": "galaxy"}),
    ("`tags` is no text", lambda memory: {**memory, "tags": [1]}),
    ("`metadata` is no JSON object", lambda memory: {**memory, "metadata": []}),
    ("`metadata` is a text with a zero", lambda memory: {**memory, "metadata": {"a": ["\0"]}}),
    ("`user_id` is nobody", lambda memory: {**memory, "user_id": str(uuid4())}),
]


async def test_a_broken_line_is_told_with_its_number_and_costs_no_other(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    good = [a_memory(user, content=f"good {number}") for number in range(len(BROKEN) + 1)]
    lines: list[Object | str] = [user, good[0]]
    for (_, breaks), whole in zip(BROKEN, good[1:], strict=True):
        bad = breaks(a_memory(user))
        lines += [bad, whole]
    # What hangs on something that is nowhere, and what has another's place.
    orphan: Object = {"thread_id": str(uuid4()), "version": 0, "state": {}, "created_at": AT}
    lines.append({"type": "state", **orphan})
    lines.append(a_memory(user, code=good[0]["code"]))
    lines.append(a_memory(user, key=os.urandom(10_000).hex()))
    path = write_lines(tmp_path / "broken.jsonl", *lines)

    report = await bring_in(engine, path, caller)

    assert report.kept["memory"] == len(good)
    assert [each.where for each in report.refusals[: len(BROKEN)]] == [
        f"line {number}" for number in range(4, 4 + 2 * len(BROKEN), 2)
    ]
    told = [each.why for each in report.refusals]
    for (why, _), said in zip(BROKEN, told, strict=False):
        assert said.startswith(why)
    assert told[len(BROKEN) :] == [
        "its thread (`thread_id`) is neither here nor in a line before it",
        "something else here has its place, its code or its label",
        "a value of it is more than the database takes",
    ]
    assert len(await rows_of(engine, caller.workspace_id)) > 0


async def test_a_thread_of_a_project_takes_its_label_from_nobody(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    user, stranger = a_user(), await colleague(engine, caller)
    project: Object = {"type": "project", "id": str(uuid4()), "name": "Lisbon", "created_at": AT}
    member: Object = {"type": "project_member", "project_id": project["id"], "created_at": AT}
    member["user_id"] = user["id"]
    inside = a_thread(user_id=user["id"], project_id=project["id"], label="#general")
    outside = a_thread(user_id=user["id"], label="#random")
    path = write_lines(tmp_path / "labels.jsonl", user, project, member, inside, outside)

    report = await bring_in(engine, path, caller)

    [[found]] = await rows(engine, "SELECT id FROM app_user WHERE login = %s", user["login"])
    for who in (stranger, replace(caller, user_id=found)):
        async with client_of(engine, server, who) as http:
            tools = OverHttp(http)
            for channel in ("#general", "#random"):
                told = f"{channel} is where tea is talked about, says {who.user_id}"
                saved = await tools.call("memory_save", content=told, channel_id=channel)
                assert saved["success"], channel
    query = "SELECT id::text, label FROM thread WHERE workspace_id = %s AND label IS NOT NULL"
    labelled = dict(await rows(engine, query, caller.workspace_id))
    assert sorted(labelled.values()) == ["#general", "#random"]
    assert labelled[outside["id"]] == "#random"
    assert inside["id"] not in labelled
    assert (report.refused, report.left_out) == ({}, {"labels": 1})


async def test_bytes_that_are_missing_or_not_the_ones_named_are_refused_alone(
    engine: Engine, caller: Caller, exported: Path, tmp_path: Path
) -> None:
    spoilt = tmp_path / "spoilt.zip"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(spoilt, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"other" if name.startswith(FILES) else old.read(name))
    alone = write_lines(tmp_path / "alone.jsonl", *lines_of(exported)[1:], end=False)

    for path, why in (
        (spoilt, "its bytes in the export are not the ones it names"),
        (alone, "its bytes are not in the export"),
    ):
        there = await neighbour(engine, caller)
        report = await bring_in(engine, path, there)

        assert (report.kept["memory"], report.kept["asset"]) == (4, 0)
        assert [each.why for each in report.refusals] == [why]
        found = await rows_of(engine, there.workspace_id)
        assert (found["asset"], found["asset_piece"]) == ([], [])


def zipped(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


async def test_a_hostile_or_foreign_archive_is_refused_whole(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    lines = json.dumps(HEADER).encode() + b"\n"
    bomb = b"\n" * (80 * 1024 * 1024)
    whole = zipped(tmp_path / "whole.zip", **{LINES: lines * 100})
    (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:-40])
    (tmp_path / "noise.jsonl").write_bytes(os.urandom(5_000))
    (tmp_path / "new.jsonl").write_text(json.dumps({**HEADER, "format": 99}))
    hostile = {
        "names that no export": zipped(
            tmp_path / "up.zip", **{LINES: lines, "files/../../../etc/cron.d/x": b"x"}
        ),
        "grows more than": zipped(tmp_path / "bomb.zip", **{LINES: lines + bomb}),
        f"no `{LINES}`": zipped(tmp_path / "other.zip", **{"conversations.json": b"[]"}),
        "its first line": tmp_path / "noise.jsonl",
        "has format `99`": tmp_path / "new.jsonl",
        "cannot be read": tmp_path / "nowhere.zip",
    }
    before = await rows_of(engine, caller.workspace_id)

    for why, path in hostile.items():
        with pytest.raises(Unreadable, match=why):
            await bring_in(engine, path, caller)
    noise = os.urandom(20_000).hex().encode()
    torn = zipped(tmp_path / "torn.zip", **{LINES: lines + noise}).read_bytes()
    (tmp_path / "torn.zip").write_bytes(torn[:5_000] + b"torn" + torn[5_004:])
    for name in ("cut.zip", "torn.zip"):
        with pytest.raises(Unreadable):
            await bring_in(engine, tmp_path / name, caller)

    assert await rows_of(engine, caller.workspace_id) == before


async def test_a_line_without_end_is_passed_over(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    endless = '{"type":"memory","content":"' + "x" * (17 * 1024 * 1024) + '"}'
    path = write_lines(tmp_path / "long.jsonl", user, endless, a_memory(user))

    report = await bring_in(engine, path, caller)

    assert report.kept["memory"] == 1
    assert [(each.where, each.why) for each in report.refusals] == [
        ("line 3", "longer than 16,777,216 bytes")
    ]


async def test_users_are_found_by_login_made_without_a_password_or_named(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    other = await colleague(engine, caller)
    stranger = await new_caller(engine)
    logins = dict(
        await rows(
            engine,
            "SELECT id::text, login FROM app_user WHERE id = ANY(%s)",
            [other.user_id, stranger.user_id],
        )
    )
    known, new = a_user(login=logins[str(other.user_id)]), a_user()
    foreign = a_user(login=logins[str(stranger.user_id)])
    path = write_lines(
        tmp_path / "users.jsonl",
        *(known, new, foreign),
        *(a_memory(each) for each in (known, new, foreign)),
    )

    report = await bring_in(engine, path, caller)
    named = await bring_in(engine, path, await neighbour(engine, caller), owner=other.user_id)

    owners = await rows(
        engine, "SELECT user_id::text FROM memory WHERE workspace_id = %s", caller.workspace_id
    )
    assert {row[0] for row in owners} == {str(other.user_id), new["id"]}
    made = await rows(
        engine,
        "SELECT org_id, password_hash, is_admin FROM app_user WHERE id = %s",
        UUID(new["id"]),
    )
    assert made == [(caller.org_id, None, False)]
    assert [each.type for each in report.refusals] == ["user", "memory"]
    assert "another org" in report.refusals[0].why
    assert (named.kept["memory"], named.refused) == (3, {})


async def test_a_thread_that_has_grown_gets_what_is_new_and_counts_right(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    thread = a_thread()

    def said(number: int) -> Object:
        return {
            "type": "message",
            "id": str(UUID(int=number)),
            "code": f"{number:012d}" * 2,
            "thread_id": thread["id"],
            "position": number,
            "role": "user",
            "content": f"word {number}",
            "created_at": AT,
        }

    some = write_lines(tmp_path / "some.jsonl", thread, *(said(n) for n in range(1, 3)))
    more = write_lines(tmp_path / "more.jsonl", thread, *(said(n) for n in range(1, 6)))

    await bring_in(engine, some, caller)
    report = await bring_in(engine, more, caller)

    assert (report.kept["message"], report.known["message"]) == (3, 2)
    counted = await rows(
        engine,
        "SELECT message_count, last_position FROM thread WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert counted == [(5, 5)]


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
shares = st.floats(min_value=0, max_value=1)
times = st.datetimes().map(lambda at: at.isoformat() + "+00:00")
objects = st.dictionaries(
    words,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | words | st.floats(-1e9, 1e9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
said_texts = words.map(lambda text: text if text.strip() else "something")


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


memory_draws = st.fixed_dictionaries(
    {
        "content": said_texts,
        "summary": maybe(words),
        "key": maybe(words),
        "category": maybe(words),
        "tags": st.lists(words, max_size=3),
        "metadata": objects,
        "importance": shares,
        "importance_base": shares,
        "pinned": st.booleans(),
        "expires_at": maybe(times),
        "valid_from": maybe(times),
        "valid_until": maybe(times),
        "lifecycle": st.sampled_from(list(Lifecycle)),
        "scope": st.sampled_from(list(Scope)),
        "origin": st.sampled_from(list(Origin)),
        "quote": maybe(words),
        "wants_vector": st.booleans(),
        "created_at": times,
        "updated_at": times,
        "deleted_at": maybe(times),
        "access_count": st.integers(0, 2**31 - 1),
        "version": st.integers(1, 2**31 - 1),
        "in_thread": st.booleans(),
    }
)
thread_draws = st.fixed_dictionaries(
    {
        "name": maybe(words),
        "label": maybe(words),
        "subject": maybe(words),
        "metadata": objects,
        "state": objects,
        "pinned": st.booleans(),
        "created_at": times,
        "updated_at": times,
        "messages": st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant", "tool"]),
                    "content": words,
                    "author": maybe(words),
                    "parts": maybe(st.lists(objects, max_size=2)),
                    "metadata": objects,
                    "created_at": times,
                }
            ),
            max_size=4,
        ),
    }
)


def test_whatever_was_taken_in_leaves_and_comes_in_again_unchanged(
    databases: TestDatabases, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = databases.clone()
    desk = tmp_path_factory.mktemp("property")

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(memory_draws, min_size=1, max_size=5), thread_draws)
    def property_holds(memories: list[Object], thread: Object) -> None:
        anyio.run(there_and_back, memories, thread)

    async def there_and_back(memories: list[Object], thread: Object) -> None:
        async with open_house(url, only(StubEmbedder()), Clock()) as engine:
            first = await new_caller(engine)
            second = await neighbour(engine, first)
            drawn = write_lines(desk / "drawn.jsonl", *told(memories, thread))
            report = await bring_in(engine, drawn, first)
            assert report.refused == {}
            left = await export(engine, desk / "left.jsonl", first, with_ended=True)
            again = await bring_in(engine, left, second)
            assert again.refused == {}
            back = await export(engine, desk / "back.jsonl", second, with_ended=True)
            assert lines_of(left)[1:] == lines_of(back)[1:]
            assert len(lines_of(left)) == len(lines_of(drawn))

    property_holds()


def told(memories: list[Object], drawn: Object) -> list[Object]:
    """The lines of what was drawn."""
    user = a_user()
    fields = {name: value for name, value in drawn.items() if name != "messages"}
    thread = a_thread(user_id=user["id"], **fields, message_count=len(drawn["messages"]))
    lines: list[Object] = [user, thread]
    for number, each in enumerate(drawn["messages"], 1):
        lines.append(
            {
                "type": "message",
                "id": str(uuid4()),
                "code": new_code(),
                "thread_id": thread["id"],
                "position": number,
                **each,
            }
        )
    made: list[Object] = []
    for each in memories:
        more = {name: value for name, value in each.items() if name != "in_thread"}
        more["thread_id"] = thread["id"] if each["in_thread"] else None
        made.append(a_memory(user, **more))
    links = [
        {
            "type": "link",
            "id": str(uuid4()),
            "source_id": source["id"],
            "target_id": target["id"],
            "relation": "related_to",
            "weight": 0.5,
            "is_authored": True,
            "created_at": AT,
        }
        for source, target in pairwise(made)
    ]
    return [*lines, *made, *links]
