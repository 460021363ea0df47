import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from embedded_support import (
    UserProcess,
    ask,
    on_linux,
    processes,
    server_pid,
    started_at,
    supervisors,
)

from recollect.embedded import CannotStart, attach
from tests.support.waiting import wait_until

Start = Callable[..., UserProcess]


def test_the_first_start_creates_role_database_and_extensions(base: Path, stack: ExitStack) -> None:
    attached = stack.enter_context(attach(base / "data"))

    role = ask(
        attached.url,
        """
        SELECT current_user::text, rolsuper, rolbypassrls, current_database()::text,
               pg_get_userbyid(datdba)::text
          FROM pg_roles, pg_database
         WHERE rolname = current_user AND datname = current_database()
        """,
    )
    extensions = ask(attached.url, "SELECT extname::text FROM pg_extension ORDER BY extname")
    assert role == [("recollect", False, False, "recollect", "recollect")]
    assert extensions == [("pg_trgm",), ("plpgsql",), ("vector",)]
    assert ask(attached.admin_url, "SELECT current_user::text") == [("postgres",)]


def test_the_server_runs_with_durable_settings(data_dir: Path, stack: ExitStack) -> None:
    attached = stack.enter_context(attach(data_dir))

    settings = ask(
        attached.url,
        """
        SELECT name, setting
          FROM pg_settings
         WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums', 'jit',
                        'listen_addresses')
         ORDER BY name
        """,
    )
    assert settings == [
        ("data_checksums", "on"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("jit", "off"),
        ("listen_addresses", ""),
        ("synchronous_commit", "on"),
    ]


def test_a_second_process_shares_the_server(data_dir: Path, stack: ExitStack, user: Start) -> None:
    attached = stack.enter_context(attach(data_dir))

    result = user(data_dir).attach()

    assert result["url"] == attached.url
    assert started_at(result["url"]) == started_at(attached.url)
    assert len(supervisors(data_dir)) == 1


def test_a_second_serve_is_rejected_with_the_running_process(
    data_dir: Path, stack: ExitStack, user: Start
) -> None:
    first = user(data_dir, "serve")
    first.attach()

    with pytest.raises(CannotStart) as refused:
        attach(data_dir, exclusive=True)

    assert refused.value.message == (
        f"`recollect serve` already runs on `{data_dir}` (process {first.process.pid}). "
        "Stop it or choose another `--data-dir`."
    )
    stack.enter_context(attach(data_dir))  # a second attachment that is not exclusive is allowed


def test_serve_can_start_after_a_killed_serve(
    data_dir: Path, stack: ExitStack, user: Start
) -> None:
    first = user(data_dir, "serve")
    first.attach()
    first.kill()

    attached = stack.enter_context(attach(data_dir, exclusive=True))

    assert ask(attached.url, "SELECT 1") == [(1,)]


def test_the_last_detach_stops_the_server(data_dir: Path, user: Start) -> None:
    attached = attach(data_dir)
    other = user(data_dir)
    other.attach()

    attached.detach()
    remained = processes(data_dir)
    other.detach()

    assert remained
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_a_second_detach_has_no_effect(data_dir: Path, stack: ExitStack) -> None:
    attached = attach(data_dir)
    other = stack.enter_context(attach(data_dir))

    attached.detach()
    attached.detach()

    assert ask(other.url, "SELECT 1") == [(1,)]


def test_a_killed_user_leaves_no_server_behind(data_dir: Path, user: Start) -> None:
    alone = user(data_dir)
    alone.attach()
    assert processes(data_dir)

    alone.kill()

    wait_until(lambda: not processes(data_dir))
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_attach_while_the_server_stops_starts_a_new_one(data_dir: Path, user: Start) -> None:
    result = list[object]()
    for _ in range(5):
        before = user(data_dir)
        before.attach()
        before.kill()
        with attach(data_dir) as attached:
            result.append(ask(attached.url, "SELECT 1"))

    assert result == [[(1,)]] * 5


def test_a_killed_supervisor_is_replaced(data_dir: Path, stack: ExitStack, user: Start) -> None:
    alone = user(data_dir)
    alone.attach()
    [first] = supervisors(data_dir)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not supervisors(data_dir))

    attach(data_dir).detach()

    assert len(supervisors(data_dir)) == 1
    alone.kill()
    wait_until(lambda: not processes(data_dir))


def test_the_last_detach_stops_the_server_even_without_a_supervisor(data_dir: Path) -> None:
    attached = attach(data_dir)
    [supervisor] = supervisors(data_dir)
    os.kill(supervisor, signal.SIGKILL)

    attached.detach()

    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(data_dir: Path, stack: ExitStack) -> None:
    stack.enter_context(attach(data_dir))

    sessions = {os.getsid(each) for each in (server_pid(data_dir), *supervisors(data_dir))}

    assert os.getsid(0) not in sessions


@on_linux
def test_the_server_inherits_none_of_our_locks(data_dir: Path, stack: ExitStack) -> None:
    stack.enter_context(attach(data_dir, exclusive=True))
    [supervisor] = supervisors(data_dir)

    assert _open_locks(server_pid(data_dir)) == set()
    assert _open_locks(supervisor) == {"users.lock", "supervisor.lock"}


def _open_locks(pid: int) -> set[str]:
    found = [each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()]
    return {each.name for each in found if each.suffix == ".lock"}


def test_four_concurrent_first_starts_create_one_cluster(base: Path, user: Start) -> None:
    users = [user(base / "data") for _ in range(4)]

    for each in users:
        each.go()
    result = [each.result() for each in users]

    assert len({str(started_at(each["url"])) for each in result}) == 1
    assert max(each["span"][0] for each in result) < min(each["span"][1] for each in result)
    assert sorted(each.name for each in (base / "data").glob("postgres*")) == [
        "postgres",
        "postgres.log",
    ]
