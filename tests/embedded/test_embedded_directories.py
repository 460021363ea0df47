import os
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from embedded_support import (
    NAMELESS,
    OTHER_USER,
    UserProcess,
    as_root,
    ask,
    copy,
    mode,
    on_linux,
    server_pid,
)

from recollect.embedded import CannotStart, attach, default_data_dir, find_binaries

Start = Callable[..., UserProcess]


def contents(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(each.relative_to(directory)): (
            each.lstat().st_mode,
            each.lstat().st_mtime_ns,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in (directory, *directory.rglob("*"))
    }


def test_files_that_are_not_a_cluster_are_not_changed(base: Path) -> None:
    existing = base / "data" / "postgres"
    existing.mkdir(parents=True)
    base.joinpath("data").chmod(0o711)
    (existing / "thesis.txt").write_text("the only copy")
    before = contents(existing)

    with pytest.raises(CannotStart, match=re.escape(f"`{existing}` contains files")):
        attach(base / "data")

    assert contents(existing) == before


def test_a_cluster_of_another_version_is_not_changed(data_dir: Path) -> None:
    (data_dir / "postgres" / "PG_VERSION").write_text("17\n")
    before = contents(data_dir / "postgres")

    with pytest.raises(CannotStart, match=r"made by PostgreSQL 17, .* are version 18"):
        attach(data_dir)

    assert contents(data_dir / "postgres") == before


def test_other_files_in_the_data_directory_are_not_changed(
    data_dir: Path, stack: ExitStack
) -> None:
    (data_dir / "cache").mkdir(mode=0o755)
    (data_dir / "cache" / "model").write_text("weights")
    before = contents(data_dir / "cache")

    stack.enter_context(attach(data_dir))

    assert contents(data_dir / "cache") == before


def test_a_directory_without_write_access_is_reported(base: Path, user: Start) -> None:
    (base / "data").mkdir(mode=0o555)

    result = user(base / "data", uid=OTHER_USER).attach()

    assert result["refused"].startswith(f"User `{OTHER_USER}` cannot write to `{base}/data`.")


def test_a_directory_that_cannot_be_created_is_reported(base: Path, user: Start) -> None:
    (base / "closed").mkdir(mode=0o555)

    result = user(base / "closed" / "data", uid=OTHER_USER).attach()

    assert result["refused"].startswith(
        f"`{base}/closed/data` cannot be created: Permission denied."
    )


def test_a_file_instead_of_a_directory_is_reported(base: Path) -> None:
    (base / "data").write_text("")

    with pytest.raises(CannotStart, match="is not a directory"):
        attach(base / "data")


@pytest.mark.parametrize("name", ['Ada\'s "own" data', "a,b", "50% of it?&c=#1", "Gedächtnis"])
def test_a_path_may_contain_any_character(
    base: Path, template: Path, stack: ExitStack, name: str
) -> None:
    copy(template, base / name)

    first = stack.enter_context(attach(base / name))
    second = stack.enter_context(attach(base / name))

    assert ask(first.url, "SELECT 1") == ask(second.admin_url, "SELECT 1") == [(1,)]


def test_a_path_too_long_for_a_socket_gets_a_short_private_one(
    base: Path, template: Path, stack: ExitStack, user: Start
) -> None:
    long = base / ("deep" * 15) / ("deeper" * 15)
    long.parent.mkdir(mode=0o755)
    copy(template, long)

    attached = stack.enter_context(attach(long))
    result = user(long).attach()

    short = Path((long / "socket.path").read_text())
    assert ask(attached.url, "SELECT 1") == [(1,)]
    assert result["url"] == attached.url
    assert mode(short) == 0o700
    assert short.stat().st_uid == (long / "postgres").stat().st_uid


def test_S102_other_users_cannot_read_the_data_directory(base: Path, stack: ExitStack) -> None:
    data_dir = base / "data"

    stack.enter_context(attach(data_dir, exclusive=True))

    locks = ["supervisor.lock", "serve.lock", "start.lock", "users.lock"]
    modes = {each.name: mode(each) for each in data_dir.iterdir()}
    assert modes == {
        "postgres": 0o700,
        "socket": 0o700,
        "postgres.log": 0o600,
        **dict.fromkeys(locks, 0o600),
    }
    assert mode(data_dir) == (0o710 if os.geteuid() == 0 else 0o700)
    assert mode(data_dir / "socket" / ".s.PGSQL.5432") == 0o700


@on_linux
def test_S102_the_server_listens_on_no_port(data_dir: Path, stack: ExitStack) -> None:
    stack.enter_context(attach(data_dir))

    links = [str(each.readlink()) for each in Path(f"/proc/{server_pid(data_dir)}/fd").iterdir()]
    sockets = {each[8:-1] for each in links if each.startswith("socket:[")}
    tables = [Path("/proc/net", each).read_text() for each in ("tcp", "tcp6", "udp", "udp6")]
    inodes = {line.split()[9] for table in tables for line in table.splitlines()[1:]}
    assert sockets
    assert not sockets & inodes


def test_an_ordinary_user_needs_only_a_home_directory(base: Path, user: Start) -> None:
    home = base / "home"
    home.mkdir(mode=0o700)
    os.chown(home, OTHER_USER, -1)

    other = user(None, uid=OTHER_USER, home=home)
    result = other.attach()

    data_dir = home / ".local" / "share" / "recollect"
    assert result["data_dir"] == str(data_dir)
    assert ask(result["url"], "SELECT current_user::text") == [("recollect",)]
    assert owners(data_dir) == {OTHER_USER}
    other.detach()


def owners(folder: Path) -> set[int]:
    """Return the owners of all files. A running server creates and removes files meanwhile."""
    found: set[int] = set()
    for each in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found.add(each.stat().st_uid)
    return found


@as_root
def test_the_first_start_reports_a_user_without_a_name(base: Path, user: Start) -> None:
    (base / "data").mkdir()
    os.chown(base / "data", NAMELESS, NAMELESS)

    result = user(base / "data", uid=NAMELESS).attach()

    assert result["refused"].startswith(f"User `{NAMELESS}` has no name on this system")


@as_root
def test_a_user_without_a_name_can_use_an_existing_directory(data_dir: Path, user: Start) -> None:
    subprocess.run(["chown", "-R", f"{NAMELESS}:{NAMELESS}", data_dir], check=True)

    nameless = user(data_dir, "serve", uid=NAMELESS)
    result = nameless.attach()

    assert ask(result["url"], "SELECT current_user::text") == [("recollect",)]
    assert Path(f"/proc/{server_pid(data_dir)}").stat().st_uid == NAMELESS
    nameless.detach()


@as_root
def test_root_keeps_the_owner_of_an_ordinary_users_directory(base: Path, user: Start) -> None:
    home = base / "home"
    home.mkdir(mode=0o700)
    os.chown(home, OTHER_USER, OTHER_USER)
    first = user(None, uid=OTHER_USER, home=home)
    data_dir = Path(first.attach()["data_dir"])
    first.detach()

    with attach(data_dir, exclusive=True):
        found = owners(data_dir)

    assert found == {OTHER_USER}
    assert "url" in user(None, "serve", uid=OTHER_USER, home=home).attach()


@as_root
def test_a_directory_the_server_cannot_enter_is_reported(base: Path) -> None:
    (base / "private").mkdir(mode=0o700)

    with pytest.raises(CannotStart, match=re.escape(f"cannot enter `{base}/private`")):
        attach(base / "private" / "data")


@as_root
def test_programs_the_server_cannot_read_are_copied_once(
    data_dir: Path, base: Path, stack: ExitStack
) -> None:
    package = find_binaries(None).parents[1]
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    for each in (package, package.with_name(package.name + ".libs")):
        subprocess.run(["cp", "-a", each, closed], check=True)

    first = stack.enter_context(
        attach(data_dir, binaries=closed / package.name / "pginstall" / "bin")
    )
    second = stack.enter_context(
        attach(data_dir, binaries=closed / package.name / "pginstall" / "bin")
    )

    [copied] = data_dir.glob("bin-*")
    assert first.bin_dir == second.bin_dir == copied / package.name / "pginstall" / "bin"
    assert Path(f"/proc/{server_pid(data_dir)}/exe").resolve() == first.bin_dir / "postgres"
    subprocess.run([first.bin_dir / "pg_dump", "--version"], check=True, user=65534, group=65534)


def test_a_setting_without_programs_is_reported(base: Path) -> None:
    with pytest.raises(CannotStart, match=re.escape(f"`postgres_bin` is `{base}`")):
        find_binaries(base)


def test_the_default_directory_depends_on_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")

    expected = "/var/lib/recollect" if os.geteuid() == 0 else "/elsewhere/recollect"
    assert default_data_dir() == Path(expected)
