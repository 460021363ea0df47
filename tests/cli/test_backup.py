"""`recollect backup` and `recollect restore`: everything in one file, all of it or nothing."""

import asyncio
import io
import json
import signal
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from cli_support import FASTER, answers, contents, interrupt_once, recollect
from hypothesis import given
from hypothesis import strategies as st

from recollect.cli.backup_file import open_backup
from recollect.dumps import CannotCopy, _Script
from recollect.embedded import attach, find_binaries
from recollect.engine.save import Save, save
from recollect.models.registry import Embedders
from recollect.store import catalogue
from recollect.store.pool import connect
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import new_caller, open_house
from tests.support.running import Running
from tests.support.waiting import wait_until

BINARIES = find_binaries(None)


@pytest.mark.slow
def test_a_backup_of_a_running_house_restores_to_the_same_answers(
    house: Running, desk: Path
) -> None:
    file = desk / "house.tar"
    made = recollect("backup", file, "--data-dir", house.data_dir)
    before = answers(house)

    restored = recollect("restore", file, "--data-dir", desk / "data")
    twin = Running(desk / "data", **FASTER)
    twin.key = house.key
    twin.start()
    after = answers(twin)
    code = twin.stop()

    assert (made.code, made.out) == (0, f"{file}\n")
    assert (restored.code, code) == (0, 0)
    assert restored.out.startswith("restored ")
    assert after == before
    assert "API key" not in twin.output  # somebody lives here already


def test_a_restored_house_holds_every_row(house: Running, restored: Path, backup: Path) -> None:
    rows = open_backup(backup).manifest.rows

    with attach(restored) as held:
        found = asyncio.run(_counts(held.url))

    assert found == rows
    assert rows["memory"] >= 4
    assert rows["turn"] >= 3


async def _counts(url: str) -> dict[str, int]:
    async with await connect(url) as db, db.transaction():
        await catalogue.see_all(db)
        return await catalogue.count_rows(db, await catalogue.tables(db))


def test_the_file_is_private_and_nothing_else_is_left(house: Running, desk: Path) -> None:
    made = recollect("backup", "--data-dir", house.data_dir, cwd=desk)

    [file] = desk.iterdir()
    assert made.out == f"{file.name}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name.startswith("recollect-20")
    assert "checking the file" in made.err


def test_a_file_that_exists_is_replaced_only_by_force(house: Running, desk: Path) -> None:
    file = desk / "house.tar"
    file.write_text("precious")

    refused = recollect("backup", file, "--data-dir", house.data_dir)
    kept = file.read_text()
    forced = recollect("backup", file, "--force", "--data-dir", house.data_dir)

    assert (refused.code, refused.out, kept) == (1, "", "precious")
    assert f"`{file}` exists" in refused.err
    assert forced.code == 0
    assert open_backup(file).manifest.rows["memory"] >= 4


def test_where_there_is_no_house_there_is_nothing_to_back_up(desk: Path) -> None:
    refused = recollect("backup", desk / "house.tar", "--data-dir", desk / "data")

    assert (refused.code, list(desk.iterdir())) == (1, [])
    assert f"There is no house in `{desk / 'data'}` yet" in refused.err


def test_a_backup_holds_no_key(house: Running, backup: Path, desk: Path) -> None:
    with tarfile.open(backup) as tar:
        tar.extract("recollect.dump", desk, filter="data")

    script = asyncio.run(_script_of(desk / "recollect.dump"))

    assert b"Ada takes her tea without milk" in script
    assert house.key[12:].encode() not in script


async def _script_of(dump: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        BINARIES / "pg_restore", "--file=-", dump, stdout=asyncio.subprocess.PIPE
    )
    return (await process.communicate())[0]


def test_a_house_that_is_not_empty_is_left_as_it_is(restored: Path, backup: Path) -> None:
    with attach(restored) as held:
        before = contents(held.url)

        refused = recollect("restore", backup, "--data-dir", restored)

        assert contents(held.url) == before
    assert (refused.code, refused.out) == (1, "")
    assert "This house is not empty: it holds " in refused.err


@pytest.mark.slow
def test_a_house_that_was_made_and_never_used_can_be_filled(backup: Path, desk: Path) -> None:
    made = recollect("migrate", "--data-dir", desk / "data")

    restored = recollect("restore", backup, "--data-dir", desk / "data")

    assert (made.code, restored.code) == (0, 0), restored.err
    with attach(desk / "data") as held:
        assert asyncio.run(_counts(held.url)) == open_backup(backup).manifest.rows


def test_a_truncated_backup_is_refused_before_anything_is_touched(backup: Path, desk: Path) -> None:
    short = desk / "short.tar"
    short.write_bytes(backup.read_bytes()[:-4096])

    refused = recollect("restore", short, "--data-dir", desk / "data")

    assert (refused.code, refused.out) == (1, "")
    assert f"`{short}` is no backup of Recollect, or not a whole one" in refused.err
    assert not (desk / "data").exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.98])
def test_a_backup_cut_anywhere_is_refused(backup: Path, tmp_path: Path, share: float) -> None:
    whole = backup.read_bytes()
    (tmp_path / "short.tar").write_bytes(whole[: int(len(whole) * share)])

    with pytest.raises(CannotCopy):
        open_backup(tmp_path / "short.tar")


@pytest.mark.parametrize("share", [0.005, 0.1, 0.5, 0.9])
def test_a_backup_with_one_wrong_bit_is_refused(backup: Path, tmp_path: Path, share: float) -> None:
    whole = bytearray(backup.read_bytes())
    whole[int(len(whole) * share)] ^= 1
    (tmp_path / "wrong.tar").write_bytes(whole)

    with pytest.raises(CannotCopy, match="is damaged"):
        open_backup(tmp_path / "wrong.tar")


def doctored(backup: Path, target: Path, **changes: object) -> Path:
    """A whole backup whose manifest says something else."""
    with tarfile.open(backup) as tar, tarfile.open(target, "w") as new:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file
            data = file.read()
            if member.name == "manifest.json":
                data = json.dumps({**json.loads(data), **changes}).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return target


def test_a_backup_of_a_newer_release_is_refused_before_anything_is_touched(
    backup: Path, desk: Path
) -> None:
    newer = doctored(backup, desk / "newer.tar", migration=9999, recollect="9.0")

    refused = recollect("restore", newer, "--data-dir", desk / "data")

    assert refused.code == 1
    assert "made by a newer Recollect (9.0, migration 9999). Upgrade first." in refused.err
    assert not (desk / "data").exists()


def test_what_fails_at_the_very_end_leaves_nothing_behind(
    backup: Path, databases: TestDatabases, desk: Path
) -> None:
    rows = {**open_backup(backup).manifest.rows, "memory": 99}
    wrong = doctored(backup, desk / "wrong.tar", rows=rows)
    url = databases.empty()

    refused = recollect("restore", wrong, DATABASE_URL=url)

    assert (refused.code, refused.out) == (1, "")
    assert "Not every row of the backup arrived. Nothing was changed." in refused.err
    assert contents(url) == {}


def test_a_database_that_has_our_tables_is_not_filled(
    backup: Path, databases: TestDatabases
) -> None:
    refused = recollect("restore", backup, DATABASE_URL=databases.clone())

    assert refused.code == 1
    assert "The database has tables of Recollect already" in refused.err


def test_the_owner_of_an_external_database_backs_up_every_workspace(
    databases: TestDatabases, desk: Path
) -> None:
    url, target = databases.clone(), databases.empty()
    asyncio.run(_fill_two_workspaces(url))

    made = recollect("backup", desk / "house.tar", DATABASE_URL=url)
    restored = recollect("restore", desk / "house.tar", DATABASE_URL=target)

    assert (made.code, restored.code) == (0, 0), made.err + restored.err
    assert contents(target) == contents(url)
    rows = open_backup(desk / "house.tar").manifest.rows
    assert (rows["workspace"], rows["memory"], rows["memory_vector"]) == (2, 6, 6)
    with psycopg.connect(target) as db:
        seen = db.execute("SELECT count(*) FROM memory").fetchone()
    assert seen == (0,)  # the restored policies hold for the owner


async def _fill_two_workspaces(url: str) -> None:
    async with open_house(url, Embedders(StubEmbedder()), Clock()) as engine:
        for _ in range(2):
            caller = await new_caller(engine)
            for number in range(3):
                await save(engine, caller, Save(content=f"statement number {number}"))


def test_a_server_newer_than_our_programs_is_named(databases: TestDatabases, desk: Path) -> None:
    old = desk / "bin"
    old.mkdir()
    for name in ("postgres", "initdb", "pg_dump", "pg_restore"):
        program = old / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 16.4'\n")
        program.chmod(0o755)

    refused = recollect(
        "backup",
        desk / "house.tar",
        DATABASE_URL=databases.clone(),
        RECOLLECT_POSTGRES_BIN=str(old),
    )

    assert refused.code == 1
    assert f"`{old}` has version 16.4" in refused.err
    assert "RECOLLECT_POSTGRES_BIN" in refused.err
    assert not (desk / "house.tar").exists()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_backup_that_is_interrupted_leaves_nothing(
    restored: Path, desk: Path, by: signal.Signals
) -> None:
    with attach(restored) as held, psycopg.connect(held.admin_url) as db:
        db.execute("LOCK TABLE memory")  # so that it cannot get to its end

        ended = interrupt_once(
            lambda: _is_blocked(held.admin_url),
            "backup",
            desk / "house.tar",
            "--data-dir",
            restored,
            by=by,
        )

    assert (ended.code, ended.out, ended.err) == (128 + by, "", "")
    assert [each.name for each in desk.iterdir()] == ["data"]


def _is_blocked(url: str) -> bool:
    with psycopg.connect(url) as db:
        # Not what PostgreSQL reads back into its memory by itself, which waits as well.
        found = db.execute(
            """
            SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND backend_type = 'client backend'
            """
        ).fetchone()
    return found != (0,)


@pytest.mark.slow
def test_a_backup_under_load_is_one_moment(house: Running, restored: Path, desk: Path) -> None:
    busy = Running(restored, **FASTER)
    busy.key = house.key
    busy.start()
    acknowledged: list[str] = []
    file = desk / "house.tar"

    before, made = asyncio.run(_back_up_while_writing(busy, file, acknowledged))
    busy.stop()
    during = len(acknowledged) - before
    taken_in = recollect("restore", file, "--data-dir", desk / "twin")

    assert (made, taken_in.code) == (0, 0), taken_in.err
    assert during > 0  # it was in flight together with the writes
    with attach(desk / "twin") as held:
        found = asyncio.run(_agreement(held.admin_url))
    assert found.memories == found.with_terms == found.tally == found.vectors
    assert set(acknowledged[:before]) <= set(found.texts)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many memories there are, by each of the tables that must agree about it."""

    memories: int
    with_terms: int
    tally: int
    vectors: int
    texts: list[str]


async def _back_up_while_writing(
    house: Running, file: Path, acknowledged: list[str]
) -> tuple[int, int]:
    is_over = asyncio.Event()

    def write(seed: int) -> None:
        number = 0
        with house.client() as http:
            while not is_over.is_set():
                number += 1
                text = f"writer {seed} counted to {number}"
                if http.post("/v1/memories", json={"content": text}).status_code == 201:
                    acknowledged.append(text)

    writers = [asyncio.create_task(asyncio.to_thread(write, seed)) for seed in range(3)]
    try:
        await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= 30)
        before = len(acknowledged)
        ran = await asyncio.to_thread(recollect, "backup", file, "--data-dir", house.data_dir)
    finally:
        is_over.set()
        await asyncio.gather(*writers)
    return before, ran.code


async def _agreement(url: str) -> Agreement:
    async with await connect(url) as db:
        row = await (
            await db.execute(
                """
                SELECT (SELECT count(*) FROM memory),
                    (SELECT count(*) FROM memory m JOIN memory_terms t
                        ON t.workspace_id = m.workspace_id AND t.memory_id = m.id
                     WHERE t.length = (SELECT sum(w.frequency) FROM memory_word w
                        WHERE w.workspace_id = m.workspace_id AND w.memory_id = m.id)),
                    (SELECT sum(documents) FROM word_tally),
                    (SELECT count(*) FROM memory_vector),
                    (SELECT array_agg(content) FROM memory)
                """
            )
        ).fetchone()
    assert row
    return Agreement(*row)


ROWS = st.lists(st.text("ab\\.\t", max_size=6).map(lambda text: text.encode() + b"\n"))


@given(tables=st.lists(ROWS, max_size=3), size=st.integers(1, 40))
def test_a_script_reads_the_same_however_it_arrives(tables: list[list[bytes]], size: int) -> None:
    # In COPY's own writing a backslash is doubled, so no row of its own is ever `\.`.
    escaped = [[row.replace(b"\\", b"\\\\") for row in rows] for rows in tables]
    text = b"\\restrict x\nSELECT 1;\n"
    for rows in escaped:
        text += b"COPY public.note (text) FROM stdin;\n" + b"".join(rows) + b"\\.\n\nSELECT 2;\n"

    read = asyncio.run(_read(text, size))

    statements = [b"SELECT 1;\n"] + [b"\nSELECT 2;\n"] * len(tables)
    assert read == (statements, [b"".join(rows) for rows in escaped])


async def _read(text: bytes, size: int) -> tuple[list[bytes], list[bytes]]:
    script = _Script(_Pieces([text[at : at + size] for at in range(0, len(text), size)]))
    statements: list[bytes] = []
    rows: list[bytes] = []
    while True:
        part = await script.statements()
        statements.append(part.sql)
        if not part.copy:
            return statements, rows
        rows.append(b"".join([piece async for piece in script.rows()]))


class _Pieces(asyncio.StreamReader):
    """A stream that arrives in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    async def read(self, n: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""
