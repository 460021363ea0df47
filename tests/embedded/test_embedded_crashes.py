import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from embedded_support import (
    UserProcess,
    as_root,
    ask,
    copy,
    on_linux,
    processes,
    server_pid,
    supervisors,
)

from recollect.embedded import CannotStart, attach
from tests.support.disk import fill, small_disk
from tests.support.waiting import wait_until

Start = Callable[..., UserProcess]

WRITE = "CREATE TABLE note AS SELECT generate_series(1, 1000) AS number"
COUNT = "SELECT count(*) FROM note"


def test_rows_survive_a_killed_server(data_dir: Path, stack: ExitStack) -> None:
    before = stack.enter_context(attach(data_dir))
    ask(before.url, WRITE)
    os.kill(server_pid(data_dir), signal.SIGKILL)

    after = stack.enter_context(attach(data_dir))

    assert ask(after.url, COUNT) == [(1000,)]
    assert len(supervisors(data_dir)) == 1


def test_rows_survive_when_user_supervisor_and_server_are_killed(
    data_dir: Path, stack: ExitStack, user: Start
) -> None:
    alone = user(data_dir, "serve")
    ask(alone.attach()["url"], WRITE)
    for each in (*supervisors(data_dir), server_pid(data_dir)):
        os.kill(each, signal.SIGKILL)
    alone.kill()

    after = stack.enter_context(attach(data_dir, exclusive=True))

    assert ask(after.url, COUNT) == [(1000,)]


@on_linux
def test_a_query_that_outlives_its_server_does_not_block_a_restart(
    data_dir: Path, stack: ExitStack
) -> None:
    before = stack.enter_context(attach(data_dir))
    busy = psycopg.connect(before.url, autocommit=True)
    stack.callback(busy.close)
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000)")
    activity = f"SELECT state FROM pg_stat_activity WHERE pid = {busy.info.backend_pid}"
    wait_until(lambda: ask(before.url, activity) == [("active",)])
    os.kill(server_pid(data_dir), signal.SIGKILL)

    after = stack.enter_context(attach(data_dir))

    assert ask(after.url, "SELECT 1") == [(1,)]


def test_revive_restarts_a_server_that_died(data_dir: Path, stack: ExitStack) -> None:
    attached = stack.enter_context(attach(data_dir))
    ask(attached.url, WRITE)
    assert not attached.revive()
    os.kill(server_pid(data_dir), signal.SIGKILL)

    wait_until(attached.revive)

    assert ask(attached.url, COUNT) == [(1000,)]
    assert len(supervisors(data_dir)) == 1


def test_attach_waits_for_a_recovering_server(data_dir: Path, stack: ExitStack) -> None:
    attached = stack.enter_context(attach(data_dir))
    ask(attached.url, WRITE)
    server = server_pid(data_dir)
    with psycopg.connect(attached.url) as doomed:
        os.kill(doomed.info.backend_pid, signal.SIGKILL)

        again = stack.enter_context(attach(data_dir))

    assert ask(again.url, COUNT) == [(1000,)]
    assert server_pid(data_dir) == server


def test_detach_stops_a_recovering_server(data_dir: Path, stack: ExitStack) -> None:
    attached = stack.enter_context(attach(data_dir))
    with psycopg.connect(attached.url) as doomed:
        os.kill(doomed.info.backend_pid, signal.SIGKILL)
        wait_until(lambda: "reinitializing" in attached.log.read_text())

        attached.detach()

    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_a_stale_pid_of_another_process_does_not_block_a_start(
    data_dir: Path, stack: ExitStack
) -> None:
    owner = (data_dir / "postgres").stat()
    is_root = os.geteuid() == 0
    # Run as the server's user: PostgreSQL itself would take this process for a running server.
    with subprocess.Popen(["sleep", "60"], user=owner.st_uid if is_root else None) as other:
        stack.callback(other.kill)
        stale = data_dir / "postgres" / "postmaster.pid"
        stale.write_text(
            f"{other.pid}\n{stale.parent}\n1\n5432\n{data_dir}/socket\n\n  1 1\nready\n"
        )

        attached = stack.enter_context(attach(data_dir))
        other.kill()

    assert ask(attached.url, "SELECT 1") == [(1,)]


def test_leftovers_of_an_interrupted_first_start_are_removed(base: Path, stack: ExitStack) -> None:
    left = base / "data" / "postgres.new-a1b2c3d4" / "cluster"
    left.mkdir(parents=True)
    base.joinpath("data").chmod(0o711)
    (left / "PG_VERSION").write_text("18\n")

    attached = stack.enter_context(attach(base / "data"))

    assert ask(attached.url, "SELECT 1") == [(1,)]
    assert not list((base / "data").glob("postgres.new-*"))


def test_a_killed_first_start_can_be_repeated(base: Path, stack: ExitStack, user: Start) -> None:
    first = user(base / "data")
    first.go()
    wait_until(lambda: any((base / "data").glob("postgres.new-*/cluster/base")))
    first.kill()
    assert not (base / "data" / "postgres").exists()

    attached = stack.enter_context(attach(base / "data"))

    assert ask(attached.url, "SELECT 1") == [(1,)]
    wait_until(lambda: not processes(base, "initdb"))


def test_a_cluster_put_there_by_a_user_is_never_removed(
    base: Path, template: Path, stack: ExitStack
) -> None:
    kept = base / "data" / "postgres.new-from-backup"
    kept.mkdir(parents=True)
    base.joinpath("data").chmod(0o711)
    (kept / "PG_VERSION").write_text("18\n")

    stack.enter_context(attach(base / "data"))

    assert (kept / "PG_VERSION").read_text() == "18\n"


def test_a_server_that_cannot_start_reports_the_reason(data_dir: Path) -> None:
    with (data_dir / "postgres" / "postgresql.conf").open("a") as file:
        file.write("\nno_such_setting = on\n")

    with pytest.raises(CannotStart) as refused:
        attach(data_dir)

    assert "no_such_setting" in refused.value.message
    assert str(data_dir / "postgres.log") in refused.value.message


def test_a_long_log_is_rotated(data_dir: Path, stack: ExitStack) -> None:
    (data_dir / "postgres.log").write_bytes(b"x" * 11_000_000)

    stack.enter_context(attach(data_dir))

    assert (data_dir / "postgres.log.1").stat().st_size == 11_000_000
    assert (data_dir / "postgres.log").stat().st_size < 10_000


@as_root
def test_a_full_disk_is_reported_and_nothing_is_lost(
    base: Path, template: Path, stack: ExitStack
) -> None:
    disk = stack.enter_context(small_disk(base, megabytes=150))
    copy(template, disk / "data")
    with attach(disk / "data") as attached:
        ask(attached.url, WRITE)
    filler = fill(disk)

    with pytest.raises(CannotStart, match="disk is full"):
        attach(disk / "data")

    filler.unlink()
    again = stack.enter_context(attach(disk / "data"))
    assert ask(again.url, COUNT) == [(1000,)]
