"""`recollect backup` and `recollect restore`: everything in one file, all or nothing."""

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

from recollect.db import catalog
from recollect.db.pool import connect
from recollect.embedded import attach, find_binaries
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.portability.backup_file import open_backup
from recollect.portability.dump import CannotCopy, _Script
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller, open_engine
from tests.support.serve_process import ServeProcess
from tests.support.waiting import wait_until

BINARIES = find_binaries(None)


@pytest.mark.slow
def test_a_backup_of_a_running_instance_restores_the_same_data(
    instance: ServeProcess, workdir: Path
) -> None:
    file = workdir / "instance.tar"
    made = recollect("backup", file, "--data-dir", instance.data_dir)
    before = answers(instance)

    restored = recollect("restore", file, "--data-dir", workdir / "data")
    copy = ServeProcess(workdir / "data", **FASTER)
    copy.key = instance.key
    copy.start()
    after = answers(copy)
    code = copy.stop()

    assert (made.code, made.out) == (0, f"{file}\n")
    assert (restored.code, code) == (0, 0)
    assert restored.out.startswith("restored ")
    assert after == before
    assert "API key" not in copy.output  # not a first run


def test_a_restored_instance_has_every_row(
    instance: ServeProcess, restored: Path, backup: Path
) -> None:
    rows = open_backup(backup).manifest.rows

    with attach(restored) as attached:
        found = asyncio.run(_counts(attached.url))

    assert found == rows
    assert rows["memory"] >= 4
    assert rows["turn"] >= 3


async def _counts(url: str) -> dict[str, int]:
    async with await connect(url) as db, db.transaction():
        await catalog.disable_row_security(db)
        return await catalog.count_rows(db, await catalog.tables(db))


def test_S102_a_backup_writes_one_private_file(instance: ServeProcess, workdir: Path) -> None:
    made = recollect("backup", "--data-dir", instance.data_dir, cwd=workdir)

    [file] = workdir.iterdir()
    assert made.out == f"{file.name}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name.startswith("recollect-20")
    assert "checking the file" in made.err


def test_an_existing_file_is_replaced_only_with_force(
    instance: ServeProcess, workdir: Path
) -> None:
    file = workdir / "instance.tar"
    file.write_text("precious")

    refused = recollect("backup", file, "--data-dir", instance.data_dir)
    kept = file.read_text()
    forced = recollect("backup", file, "--force", "--data-dir", instance.data_dir)

    assert (refused.code, refused.out, kept) == (1, "", "precious")
    assert f"`{file}` already exists" in refused.err
    assert forced.code == 0
    assert open_backup(file).manifest.rows["memory"] >= 4


def test_a_missing_instance_cannot_be_backed_up(workdir: Path) -> None:
    refused = recollect("backup", workdir / "instance.tar", "--data-dir", workdir / "data")

    assert (refused.code, list(workdir.iterdir())) == (1, [])
    assert f"There is no Recollect data in `{workdir / 'data'}`" in refused.err


def test_a_backup_contains_no_api_key(instance: ServeProcess, backup: Path, workdir: Path) -> None:
    with tarfile.open(backup) as tar:
        tar.extract("recollect.dump", workdir, filter="data")

    script = asyncio.run(_script_of(workdir / "recollect.dump"))

    assert b"Ada takes her tea without milk" in script
    assert instance.key[12:].encode() not in script


async def _script_of(dump: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        BINARIES / "pg_restore", "--file=-", dump, stdout=asyncio.subprocess.PIPE
    )
    return (await process.communicate())[0]


def test_restore_does_not_change_an_instance_with_data(restored: Path, backup: Path) -> None:
    with attach(restored) as attached:
        before = contents(attached.url)

        refused = recollect("restore", backup, "--data-dir", restored)

        assert contents(attached.url) == before
    assert (refused.code, refused.out) == (1, "")
    assert "This instance is not empty: it holds " in refused.err


@pytest.mark.slow
def test_restore_fills_a_migrated_but_unused_instance(backup: Path, workdir: Path) -> None:
    made = recollect("migrate", "--data-dir", workdir / "data")

    restored = recollect("restore", backup, "--data-dir", workdir / "data")

    assert (made.code, restored.code) == (0, 0), restored.err
    with attach(workdir / "data") as attached:
        assert asyncio.run(_counts(attached.url)) == open_backup(backup).manifest.rows


def test_a_truncated_backup_is_rejected_before_any_change(backup: Path, workdir: Path) -> None:
    short = workdir / "short.tar"
    short.write_bytes(backup.read_bytes()[:-4096])

    refused = recollect("restore", short, "--data-dir", workdir / "data")

    assert (refused.code, refused.out) == (1, "")
    assert f"`{short}` is not a backup of Recollect, or it is incomplete" in refused.err
    assert not (workdir / "data").exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.98])
def test_a_backup_truncated_anywhere_is_rejected(
    backup: Path, tmp_path: Path, share: float
) -> None:
    whole = backup.read_bytes()
    (tmp_path / "short.tar").write_bytes(whole[: int(len(whole) * share)])

    with pytest.raises(CannotCopy):
        open_backup(tmp_path / "short.tar")


@pytest.mark.parametrize("share", [0.005, 0.1, 0.5, 0.9])
def test_a_backup_with_one_wrong_bit_is_rejected(
    backup: Path, tmp_path: Path, share: float
) -> None:
    whole = bytearray(backup.read_bytes())
    whole[int(len(whole) * share)] ^= 1
    (tmp_path / "wrong.tar").write_bytes(whole)

    with pytest.raises(CannotCopy, match="is damaged"):
        open_backup(tmp_path / "wrong.tar")


def with_manifest(backup: Path, target: Path, **changes: object) -> Path:
    """Copy a backup and change its manifest."""
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


def test_a_backup_of_a_newer_release_is_rejected_before_any_change(
    backup: Path, workdir: Path
) -> None:
    newer = with_manifest(backup, workdir / "newer.tar", migration=9999, recollect="9.0")

    refused = recollect("restore", newer, "--data-dir", workdir / "data")

    assert refused.code == 1
    assert "made by a newer Recollect (9.0, migration 9999). Upgrade first." in refused.err
    assert not (workdir / "data").exists()


def test_a_backup_of_an_older_release_says_how_to_restore_it(backup: Path, workdir: Path) -> None:
    older = with_manifest(backup, workdir / "older.tar", migration=26, migration_name=None)

    refused = recollect("restore", older, "--data-dir", workdir / "data")

    assert refused.code == 1
    assert "was made by an older Recollect (migration 26)" in refused.err
    assert "Restore it with commit `" in refused.err
    assert not (workdir / "data").exists()


def test_a_restore_that_fails_at_the_end_leaves_nothing_behind(
    backup: Path, databases: TestDatabases, workdir: Path
) -> None:
    rows = {**open_backup(backup).manifest.rows, "memory": 99}
    wrong = with_manifest(backup, workdir / "wrong.tar", rows=rows)
    url = databases.empty()

    refused = recollect("restore", wrong, DATABASE_URL=url)

    assert (refused.code, refused.out) == (1, "")
    assert "Some rows of the backup were not restored. Nothing was changed." in refused.err
    assert contents(url) == {}


def test_restore_rejects_a_database_with_recollect_tables(
    backup: Path, databases: TestDatabases
) -> None:
    refused = recollect("restore", backup, DATABASE_URL=databases.clone())

    assert refused.code == 1
    assert "The database already has Recollect tables" in refused.err


def test_the_owner_of_an_external_database_backs_up_every_workspace(
    databases: TestDatabases, workdir: Path
) -> None:
    url, target = databases.clone(), databases.empty()
    asyncio.run(_fill_two_workspaces(url))

    made = recollect("backup", workdir / "instance.tar", DATABASE_URL=url)
    restored = recollect("restore", workdir / "instance.tar", DATABASE_URL=target)

    assert (made.code, restored.code) == (0, 0), made.err + restored.err
    assert contents(target) == contents(url)
    rows = open_backup(workdir / "instance.tar").manifest.rows
    assert (rows["workspace"], rows["memory"], rows["memory_vector"]) == (2, 6, 6)
    with psycopg.connect(target) as db:
        seen = db.execute("SELECT count(*) FROM memory").fetchone()
    assert seen == (0,)  # the restored policies also apply to the owner


async def _fill_two_workspaces(url: str) -> None:
    async with open_engine(url, Embedders(StubEmbedder()), Clock()) as engine:
        for _ in range(2):
            caller = await new_caller(engine)
            for number in range(3):
                await save(engine, caller, Save(content=f"statement number {number}"))


def test_a_server_newer_than_our_programs_is_reported(
    databases: TestDatabases, workdir: Path
) -> None:
    old = workdir / "bin"
    old.mkdir()
    for name in ("postgres", "initdb", "pg_dump", "pg_restore"):
        program = old / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 16.4'\n")
        program.chmod(0o755)

    refused = recollect(
        "backup",
        workdir / "instance.tar",
        DATABASE_URL=databases.clone(),
        RECOLLECT_POSTGRES_BIN=str(old),
    )

    assert refused.code == 1
    assert f"`{old}` has version 16.4" in refused.err
    assert "RECOLLECT_POSTGRES_BIN" in refused.err
    assert not (workdir / "instance.tar").exists()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_backup_leaves_nothing(
    restored: Path, workdir: Path, by: signal.Signals
) -> None:
    with attach(restored) as attached, psycopg.connect(attached.admin_url) as db:
        db.execute("LOCK TABLE memory")  # so that the backup cannot finish

        ended = interrupt_once(
            lambda: _is_blocked(attached.admin_url),
            "backup",
            workdir / "instance.tar",
            "--data-dir",
            restored,
            by=by,
        )

    assert (ended.code, ended.out, ended.err) == (128 + by, "", "")
    assert [each.name for each in workdir.iterdir()] == ["data"]


def _is_blocked(url: str) -> bool:
    with psycopg.connect(url) as db:
        # Only client backends: PostgreSQL's own prewarm worker waits for the lock as well.
        found = db.execute(
            """
            SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND backend_type = 'client backend'
            """
        ).fetchone()
    return found != (0,)


@pytest.mark.slow
def test_a_backup_under_load_is_a_consistent_snapshot(
    instance: ServeProcess, restored: Path, workdir: Path
) -> None:
    busy = ServeProcess(restored, **FASTER)
    busy.key = instance.key
    busy.start()
    acknowledged: list[str] = []
    file = workdir / "instance.tar"

    before, made = asyncio.run(_back_up_while_writing(busy, file, acknowledged))
    busy.stop()
    during = len(acknowledged) - before
    restore = recollect("restore", file, "--data-dir", workdir / "copy")

    assert (made, restore.code) == (0, 0), restore.err
    assert during > 0  # some writes happened during the backup
    with attach(workdir / "copy") as attached:
        found = asyncio.run(_count_memories(attached.admin_url))
    assert found.memories == found.with_terms == found.tally == found.vectors
    assert set(acknowledged[:before]) <= set(found.texts)


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """The number of memories according to each table that must agree about it."""

    memories: int
    with_terms: int
    tally: int
    vectors: int
    texts: list[str]


async def _back_up_while_writing(
    instance: ServeProcess, file: Path, acknowledged: list[str]
) -> tuple[int, int]:
    is_over = asyncio.Event()

    def write(seed: int) -> None:
        number = 0
        with instance.client() as http:
            while not is_over.is_set():
                number += 1
                text = f"writer {seed} counted to {number}"
                if http.post("/v1/memories", json={"content": text}).status_code == 201:
                    acknowledged.append(text)

    writers = [asyncio.create_task(asyncio.to_thread(write, seed)) for seed in range(3)]
    try:
        await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= 30)
        before = len(acknowledged)
        ran = await asyncio.to_thread(recollect, "backup", file, "--data-dir", instance.data_dir)
    finally:
        is_over.set()
        await asyncio.gather(*writers)
    return before, ran.code


async def _count_memories(url: str) -> MemoryCounts:
    async with await connect(url) as db:
        row = await (
            await db.execute(
                """
                SELECT (SELECT count(*) FROM memory),
                    (SELECT count(*) FROM memory m JOIN memory_terms t
                        ON t.workspace_id = m.workspace_id AND t.memory_id = m.id
                     WHERE t.length = (SELECT sum(w.frequency) FROM memory_word w
                        WHERE w.workspace_id = m.workspace_id AND w.memory_id = m.id)),
                    (SELECT sum(documents) FROM keyword_total),
                    (SELECT count(*) FROM memory_vector),
                    (SELECT array_agg(content) FROM memory)
                """
            )
        ).fetchone()
    assert row
    return MemoryCounts(*row)


ROWS = st.lists(st.text("ab\\.\t", max_size=6).map(lambda text: text.encode() + b"\n"))


@given(tables=st.lists(ROWS, max_size=3), size=st.integers(1, 40))
def test_a_script_is_parsed_the_same_for_any_chunk_size(
    tables: list[list[bytes]], size: int
) -> None:
    # COPY doubles each backslash, so no row is ever `\.`.
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
    """A stream that delivers these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    async def read(self, n: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""
