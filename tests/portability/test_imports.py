"""Import of exports: repeated, with new ids, broken, hostile, and as a dry run."""

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

from recollect.core.domain import Caller, Lifecycle, Origin, Scope, new_code
from recollect.engine import Engine
from recollect.portability.archive import FILES, LINES
from recollect.portability.errors import UnreadableFile
from recollect.server import Server
from recollect.tenancy.queries import orgs
from tests.support.alumia import add_colleague, client_of, new_project, recall_values, save_memory
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.export_files import Object, export, import_file, lines_of, rows_of
from tests.support.instance import in_new_workspace, new_caller, open_engine, single_embedder
from tests.support.statebase import create_memory, open_session
from tests.support.tools import OverHttp, fetch_rows, links_of

pytestmark = pytest.mark.anyio

AT = "2026-03-01T12:00:00+00:00"
HEADER = {"type": "recollect", "format": 1}


@pytest.fixture
async def exported(engine: Engine, server: Server, caller: Caller, tmp_path: Path) -> Path:
    """A small workspace: a session, two linked memories, an asset, a project."""
    await new_project(engine, caller)
    async with client_of(engine, server, caller) as http:
        talk = await open_session(http, initial_state={"step": 1})
        await create_memory(http, "Ada drinks tea", talk)
        tools = OverHttp(http)
        first = await tools.call("memory_save", content="Ada lives in Bergen")
        linked = [{"target_id": first["memory_id"], "relation": "updates"}]
        await tools.call("memory_save", content="Ada lives in Oslo", associations=linked)
        memory = await save_memory(http, "Coffee at nine", key="coffee")
        path = f"/api/v1/memories/{memory['id']}/assets"
        await http.post(path, files={"file": ("a.txt", b"beans", "text/plain")})
    return await export(engine, tmp_path / "export.zip", caller)


def write_lines(path: Path, *lines: Object | str, end: bool = True) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    texts += [json.dumps({"type": "end", "lines": {}})] if end else []
    path.write_text("\n".join([json.dumps(HEADER), *texts]) + "\n", encoding="utf-8")
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


async def test_importing_twice_adds_each_record_once(
    engine: Engine, caller: Caller, exported: Path
) -> None:
    there = await in_new_workspace(engine, caller)

    first = await import_file(engine, exported, there)
    before = await rows_of(engine, there.workspace_id)
    second = await import_file(engine, exported, there)

    assert first.refused == second.refused == {}
    assert second.kept.total() == 0
    assert second.known == first.kept + first.known
    assert await rows_of(engine, there.workspace_id) == before


async def test_new_ids_create_exactly_one_copy_of_existing_records(
    engine: Engine, server: Server, caller: Caller, exported: Path
) -> None:
    before = await rows_of(engine, caller.workspace_id)

    first = await import_file(engine, exported, caller, new_ids=True)
    second = await import_file(engine, exported, caller, new_ids=True)

    after = await rows_of(engine, caller.workspace_id)
    assert first.refused == second.refused == {}
    assert second.kept.total() == 0
    for table in ("memory", "thread", "memory_link", "asset", "asset_piece", "thread_state"):
        assert len(after[table]) == 2 * len(before[table]), table
    assert len(after["project"]) == len(before["project"])
    for name in ("id", "code"):
        assert len({row[name] for row in after["memory"]}) == len(after["memory"])
    [old, new] = sorted(await links_of(engine, caller.workspace_id))
    assert not {old[0], old[2]} & {new[0], new[2]}
    texts = {row["id"]: row["content"] for row in after["memory"]}
    assert (texts[old[0]], texts[old[2]]) == (texts[new[0]], texts[new[2]])


async def test_a_dry_run_reports_the_result_and_changes_nothing(
    engine: Engine, caller: Caller, exported: Path
) -> None:
    there = await new_caller(engine)
    before = await rows_of(engine, there.workspace_id)

    dry_run = await import_file(engine, exported, there, is_dry_run=True, owner=there.user_id)
    between = await rows_of(engine, there.workspace_id)
    done = await import_file(engine, exported, there, owner=there.user_id)

    assert between == before
    assert (dry_run.kept, dry_run.known, dry_run.refused) == (done.kept, done.known, done.refused)
    assert done.kept["memory"] == 4


async def test_an_interrupted_import_continues_when_run_again(
    engine: Engine, caller: Caller, exported: Path, tmp_path: Path
) -> None:
    there = await in_new_workspace(engine, caller)
    lines = lines_of(exported)
    part = write_lines(tmp_path / "part.jsonl", *lines[1 : len(lines) - 4], end=False)

    first = await import_file(engine, part, there)
    second = await import_file(engine, exported, there)

    assert [each.why for each in first.refusals] == [
        "the file is truncated: its last line is missing"
    ]
    assert second.refused == {}
    assert await rows_of(engine, there.workspace_id) == await rows_of(engine, caller.workspace_id)


async def test_concurrent_imports_add_each_record_once(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    path = write_lines(tmp_path / "many.jsonl", user, *(a_memory(user) for _ in range(450)))

    reports = await asyncio.gather(*(import_file(engine, path, caller) for _ in range(3)))

    assert [report.refused for report in reports] == [{}] * 3
    assert sum(report.kept["memory"] for report in reports) == 450
    assert sum(report.kept["user"] for report in reports) == 1
    [(counted,)] = await fetch_rows(
        engine,
        "SELECT sum(documents) FROM keyword_total WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert counted == 450


async def test_imported_memories_are_found_by_words_vectors_and_keys(
    engine: Engine, server: Server, caller: Caller, exported: Path, embedder: StubEmbedder
) -> None:
    there = await in_new_workspace(engine, caller)
    embedder.seen_texts.clear()

    await import_file(engine, exported, there)

    assert "Coffee at nine" in embedder.seen_texts
    async with engine.pool.everywhere() as db:
        await orgs.set_workspaces(db, there.org_id, is_on=True)
    async with client_of(engine, server, there) as http:
        assert "Coffee at nine" in await recall_values(http, "coffee")
        again = await save_memory(http, "Coffee at ten", key="coffee")
    assert [row["id"] for row in lines_of(exported) if row.get("key")] == [again["id"]]


BROKEN: list[tuple[str, Callable[[Object], Object | str]]] = [
    ("not valid JSON at character", lambda memory: json.dumps(memory)[:-1]),
    ("not a JSON object", lambda _: "[1]"),
    ("not valid JSON", lambda memory: json.dumps({**memory, "importance": float("nan")})),
    ("not valid JSON", lambda _: '{"type":' + "[" * 100_000),
    ("`type` is missing", lambda memory: {**memory, "type": None}),
    ("this release does not know this kind of record", lambda memory: {**memory, "type": "dream"}),
    ("`content` is missing", lambda memory: dict(list(memory.items())[:4])),
    ("`content` is null", lambda memory: {**memory, "content": None}),
    ("`content` is not a string", lambda memory: {**memory, "content": 7}),
    ("`content` is empty", lambda memory: {**memory, "content": " "}),
    ("`content` is longer than 50,000 bytes", lambda memory: {**memory, "content": "x" * 50_001}),
    ("`content` is a string with a zero byte", lambda memory: {**memory, "content": "a\0b"}),
    ("`content` is not valid Unicode", lambda memory: {**memory, "content": "\ud800"}),
    ("`id` is not a UUID", lambda memory: {**memory, "id": "../../etc/passwd"}),
    ("`code` is not a code", lambda memory: {**memory, "code": "a'b"}),
    ("`created_at` is not an ISO 8601 time", lambda memory: {**memory, "created_at": "yesterday"}),
    ("`created_at` is a time without", lambda memory: {**memory, "created_at": "2026-03-01"}),
    ("`importance` is not a number from 0 to 1", lambda memory: {**memory, "importance": 2}),
    ("`access_count` is not an integer", lambda memory: {**memory, "access_count": 2**40}),
    ("`scope` is not one of", lambda memory: {**memory, "scope": "galaxy"}),
    ("`tags` is not a string", lambda memory: {**memory, "tags": [1]}),
    ("`metadata` is not a JSON object", lambda memory: {**memory, "metadata": []}),
    ("`metadata` is a string with a zero", lambda memory: {**memory, "metadata": {"a": ["\0"]}}),
    ("`user_id` is not the user", lambda memory: {**memory, "user_id": str(uuid4())}),
]


async def test_a_broken_line_is_reported_with_its_number_and_affects_no_other(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    good = [a_memory(user, content=f"good {number}") for number in range(len(BROKEN) + 1)]
    lines: list[Object | str] = [user, good[0]]
    for (_, breaks), whole in zip(BROKEN, good[1:], strict=True):
        bad = breaks(a_memory(user))
        lines += [bad, whole]
    # A row without its parent, a row with a taken code, and a row with too long a key.
    orphan: Object = {"thread_id": str(uuid4()), "version": 0, "state": {}, "created_at": AT}
    lines.append({"type": "state", **orphan})
    lines.append(a_memory(user, code=good[0]["code"]))
    lines.append(a_memory(user, key=os.urandom(10_000).hex()))
    path = write_lines(tmp_path / "broken.jsonl", *lines)

    report = await import_file(engine, path, caller)

    assert report.kept["memory"] == len(good)
    assert [each.where for each in report.refusals[: len(BROKEN)]] == [
        f"line {number}" for number in range(4, 4 + 2 * len(BROKEN), 2)
    ]
    reasons = [each.why for each in report.refusals]
    for (expected, _), reason in zip(BROKEN, reasons, strict=False):
        assert reason.startswith(expected)
    assert reasons[len(BROKEN) :] == [
        "its thread (`thread_id`) does not exist and is not in an earlier line",
        "another record already has its position, code or label",
        "the database rejects one of its values",
    ]
    assert len(await rows_of(engine, caller.workspace_id)) > 0


async def test_an_imported_thread_of_a_project_loses_its_label(
    engine: Engine, server: Server, caller: Caller, tmp_path: Path
) -> None:
    user, outsider = a_user(), await add_colleague(engine, caller)
    project: Object = {"type": "project", "id": str(uuid4()), "name": "Lisbon", "created_at": AT}
    member: Object = {"type": "project_member", "project_id": project["id"], "created_at": AT}
    member["user_id"] = user["id"]
    inside = a_thread(user_id=user["id"], project_id=project["id"], label="#general")
    outside = a_thread(user_id=user["id"], label="#random")
    path = write_lines(tmp_path / "labels.jsonl", user, project, member, inside, outside)

    report = await import_file(engine, path, caller)

    [[found]] = await fetch_rows(engine, "SELECT id FROM app_user WHERE login = %s", user["login"])
    for who in (outsider, replace(caller, user_id=found)):
        async with client_of(engine, server, who) as http:
            tools = OverHttp(http)
            for channel in ("#general", "#random"):
                content = f"{channel} is where tea is talked about, says {who.user_id}"
                saved = await tools.call("memory_save", content=content, channel_id=channel)
                assert saved["success"], channel
    query = "SELECT id::text, label FROM thread WHERE workspace_id = %s AND label IS NOT NULL"
    labelled = dict(await fetch_rows(engine, query, caller.workspace_id))
    assert sorted(labelled.values()) == ["#general", "#random"]
    assert labelled[outside["id"]] == "#random"
    assert inside["id"] not in labelled
    assert (report.refused, report.left_out) == ({}, {"labels": 1})


async def test_an_asset_with_missing_or_wrong_bytes_is_refused_alone(
    engine: Engine, caller: Caller, exported: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"other" if name.startswith(FILES) else old.read(name))
    alone = write_lines(tmp_path / "alone.jsonl", *lines_of(exported)[1:], end=False)

    for path, why in (
        (changed, "its bytes in the export do not match its size and digest"),
        (alone, "its bytes are not in the export"),
    ):
        there = await in_new_workspace(engine, caller)
        report = await import_file(engine, path, there)

        assert (report.kept["memory"], report.kept["asset"]) == (4, 0)
        assert [each.why for each in report.refusals] == [why]
        found = await rows_of(engine, there.workspace_id)
        assert (found["asset"], found["asset_piece"]) == ([], [])


def zipped(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


async def test_a_hostile_or_foreign_archive_is_rejected_as_a_whole(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    lines = json.dumps(HEADER).encode() + b"\n"
    bomb = b"\n" * (80 * 1024 * 1024)
    whole = zipped(tmp_path / "whole.zip", **{LINES: lines * 100})
    (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:-40])
    (tmp_path / "noise.jsonl").write_bytes(os.urandom(5_000))
    (tmp_path / "new.jsonl").write_text(json.dumps({**HEADER, "format": 99}))
    hostile = {
        "entries that no export": zipped(
            tmp_path / "up.zip", **{LINES: lines, "files/../../../etc/cron.d/x": b"x"}
        ),
        "expands more than": zipped(tmp_path / "bomb.zip", **{LINES: lines + bomb}),
        f"no `{LINES}`": zipped(tmp_path / "other.zip", **{"conversations.json": b"[]"}),
        "its first line": tmp_path / "noise.jsonl",
        "has format `99`": tmp_path / "new.jsonl",
        "cannot be read": tmp_path / "nowhere.zip",
    }
    before = await rows_of(engine, caller.workspace_id)

    for why, path in hostile.items():
        with pytest.raises(UnreadableFile, match=why):
            await import_file(engine, path, caller)
    noise = os.urandom(20_000).hex().encode()
    torn = zipped(tmp_path / "torn.zip", **{LINES: lines + noise}).read_bytes()
    (tmp_path / "torn.zip").write_bytes(torn[:5_000] + b"torn" + torn[5_004:])
    for name in ("cut.zip", "torn.zip"):
        with pytest.raises(UnreadableFile):
            await import_file(engine, tmp_path / name, caller)

    assert await rows_of(engine, caller.workspace_id) == before


async def test_a_line_that_is_too_long_is_skipped(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    user = a_user()
    too_long = '{"type":"memory","content":"' + "x" * (17 * 1024 * 1024) + '"}'
    path = write_lines(tmp_path / "long.jsonl", user, too_long, a_memory(user))

    report = await import_file(engine, path, caller)

    assert report.kept["memory"] == 1
    assert [(each.where, each.why) for each in report.refusals] == [
        ("line 3", "longer than 16,777,216 bytes")
    ]


async def test_users_are_found_by_login_created_without_password_or_replaced(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    other = await add_colleague(engine, caller)
    outsider = await new_caller(engine)
    logins = dict(
        await fetch_rows(
            engine,
            "SELECT id::text, login FROM app_user WHERE id = ANY(%s)",
            [other.user_id, outsider.user_id],
        )
    )
    known, new = a_user(login=logins[str(other.user_id)]), a_user()
    foreign = a_user(login=logins[str(outsider.user_id)])
    path = write_lines(
        tmp_path / "users.jsonl",
        *(known, new, foreign),
        *(a_memory(each) for each in (known, new, foreign)),
    )

    report = await import_file(engine, path, caller)
    with_owner = await import_file(
        engine, path, await in_new_workspace(engine, caller), owner=other.user_id
    )

    owners = await fetch_rows(
        engine, "SELECT user_id::text FROM memory WHERE workspace_id = %s", caller.workspace_id
    )
    assert {row[0] for row in owners} == {str(other.user_id), new["id"]}
    created = await fetch_rows(
        engine,
        "SELECT org_id, password_hash, is_admin FROM app_user WHERE id = %s",
        UUID(new["id"]),
    )
    assert created == [(caller.org_id, None, False)]
    assert [each.type for each in report.refusals] == ["user", "memory"]
    assert "another org" in report.refusals[0].why
    assert (with_owner.kept["memory"], with_owner.refused) == (3, {})


async def test_importing_a_longer_thread_adds_new_messages_and_updates_counts(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    thread = a_thread()

    def a_message(number: int) -> Object:
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

    some = write_lines(tmp_path / "some.jsonl", thread, *(a_message(n) for n in range(1, 3)))
    more = write_lines(tmp_path / "more.jsonl", thread, *(a_message(n) for n in range(1, 6)))

    await import_file(engine, some, caller)
    report = await import_file(engine, more, caller)

    assert (report.kept["message"], report.known["message"]) == (3, 2)
    counted = await fetch_rows(
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
non_empty_texts = words.map(lambda text: text if text.strip() else "something")


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


memory_draws = st.fixed_dictionaries(
    {
        "content": non_empty_texts,
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


def test_export_and_import_leave_every_record_unchanged(
    databases: TestDatabases, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = databases.clone()
    directory = tmp_path_factory.mktemp("property")

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(memory_draws, min_size=1, max_size=5), thread_draws)
    def property_holds(memories: list[Object], thread: Object) -> None:
        anyio.run(round_trip, memories, thread)

    async def round_trip(memories: list[Object], thread: Object) -> None:
        async with open_engine(url, single_embedder(StubEmbedder()), Clock()) as engine:
            first = await new_caller(engine)
            second = await in_new_workspace(engine, first)
            drawn = write_lines(directory / "drawn.jsonl", *drawn_lines(memories, thread))
            report = await import_file(engine, drawn, first)
            assert report.refused == {}
            exported = await export(engine, directory / "exported.jsonl", first, with_ended=True)
            again = await import_file(engine, exported, second)
            assert again.refused == {}
            back = await export(engine, directory / "back.jsonl", second, with_ended=True)
            assert lines_of(exported)[1:] == lines_of(back)[1:]
            assert len(lines_of(exported)) == len(lines_of(drawn))

    property_holds()


def drawn_lines(memories: list[Object], drawn: Object) -> list[Object]:
    """The lines of the drawn memories and thread."""
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
    memory_lines: list[Object] = []
    for each in memories:
        more = {name: value for name, value in each.items() if name != "in_thread"}
        more["thread_id"] = thread["id"] if each["in_thread"] else None
        memory_lines.append(a_memory(user, **more))
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
        for source, target in pairwise(memory_lines)
    ]
    return [*lines, *memory_lines, *links]
