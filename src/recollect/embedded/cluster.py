"""The cluster, PostgreSQL's own directory: made whole or not at all, started, looked at."""

import fcntl
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from recollect.embedded.binaries import version_of
from recollect.embedded.errors import CannotStart
from recollect.embedded.home import SOCKET_NAME, Home, give
from recollect.embedded.locks import open_file, wait_lock

_KEEPER = Path(__file__).with_name("keeper.py")
_MOST_LOG_BYTES = 10_000_000
_TAIL_LINES = 12

# Recollect's environment holds keys, which are no business of the server's.
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# On the command line, so that a newer Recollect's choice holds for clusters already made.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",  # names the socket; stated because the environment could say otherwise
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "password_encryption": "scram-sha-256",
    "jit": "off",
    # Plans for tables never analysed are poor; a new house shall not wait a minute for good ones.
    "autovacuum_naptime": "10s",
    "autovacuum_work_mem": "64MB",  # else as much as building an index may take, for each worker
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",  # `Launch.may_pass` reads one of them
    "logging_collector": "off",
    # What a failing statement held may be a memory, and memories do not belong in logs.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


# A search by a vector index reads thousands of pages from all over it. In 128 MB, PostgreSQL's own
# choice, those of 100,000 memories do not stay: such a search took 21 ms, and 13 in 1 GB.
_LEAST_BUFFERS_MIB = 128
_MOST_BUFFERS_MIB = 1_024
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


# While a vector index is built it should fit in here: what does not fit is linked on the disk. A
# million halved vectors of 384 numbers are 0.8 GB without their links.
_LEAST_BUILDING_MIB = 64
_MOST_BUILDING_MIB = 2_048


def buffers_mib() -> int:
    """PostgreSQL's own memory: an eighth of what this machine or container has, within bounds."""
    return min(max(_eighth_mib(), _LEAST_BUFFERS_MIB), _MOST_BUFFERS_MIB)


def building_mib() -> int:
    """What building an index may take for a while: an eighth as well, within other bounds."""
    return min(max(_eighth_mib(), _LEAST_BUILDING_MIB), _MOST_BUILDING_MIB)


def _eighth_mib() -> int:
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # none, or "max"
        most = min(most, int(_CONTAINER_LIMIT.read_text()))
    return most // 8 // 2**20


@dataclass(frozen=True, slots=True)
class Launch:
    """A server on its way up."""

    home: Home
    ends: int  # the reading end of a pipe that closes when the server ends
    log_start: int

    def wait_end(self, patience: timedelta) -> bool:
        """Whether the server ends before `patience` has passed."""
        pipe = select.poll()
        pipe.register(self.ends, select.POLLIN)
        return bool(pipe.poll(patience.total_seconds() * 1000))

    def may_pass(self) -> bool:
        """Whether it ended for a reason that goes away: processes of a killed server linger."""
        # No exit code tells this apart. PostgreSQL's interlock refuses to start beside them.
        return "pre-existing shared memory block" in self._said()

    def failure(self) -> CannotStart:
        """What to tell a person, with what the server said last."""
        said = "\n".join(self._said().splitlines()[-_TAIL_LINES:])
        return CannotStart(
            f"PostgreSQL did not start on `{self.home.cluster}`. Nothing was removed."
            f"{_disk_hint(self.home)} The end of its log, `{self.home.log}`:\n{said or '(empty)'}"
        )

    def close(self) -> None:
        """Stop listening; the server goes on."""
        os.close(self.ends)

    def _said(self) -> str:
        with self.home.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")


def prepare(home: Home, bin_dir: Path) -> None:
    """Make the cluster if there is none; refuse one that is not these programs' own."""
    marker = home.cluster / "PG_VERSION"
    if marker.exists():
        _check_version(home, bin_dir, marker.read_text().strip())
    elif home.cluster.exists() and any(home.cluster.iterdir()):
        raise CannotStart(
            f"`{home.cluster}` has files in it but is no PostgreSQL cluster (there is no "
            "`PG_VERSION`), so it is left alone. Move it away or choose another `--data-dir`."
        )
    else:
        _initialise(home, bin_dir)


def launch(home: Home, bin_dir: Path, socket_dir: Path) -> Launch:
    """Start the server and its keeper, without waiting until it answers."""
    _forget_the_dead(home, socket_dir)
    _rotate(home.log)
    reading, writing = os.pipe()
    try:
        log_start = home.log.stat().st_size if home.log.exists() else 0
        _run_keeper(home, 0, _command(home, bin_dir, socket_dir), writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Launch(home, reading, log_start)


def keep(home: Home, pid: int) -> None:
    """Give a running server a keeper if its own has died."""
    fd = open_file(home.keeper_lock)
    is_free = wait_lock(fd, fcntl.LOCK_EX, timedelta(0))
    os.close(fd)
    if is_free:
        _run_keeper(home, pid, [], None)


def running_pid(home: Home) -> int | None:
    """The process of this cluster's server if it lives, whether or not it answers."""
    try:
        pid = int((home.cluster / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if _serves(home, str(pid)) else None


def is_alive(home: Home, socket_dir: Path) -> bool:
    """Whether a server of this cluster lives, even if it answers nobody yet."""
    # Its process does not show when it runs in another container on the same directory; that it
    # listens does, and starting a second one there would destroy the data.
    return running_pid(home) is not None or _is_listening(socket_dir)


def end_orphans(home: Home) -> None:
    """End what a killed server left; call it only when no server of this cluster lives."""
    # They end by themselves, but one in the middle of an index build only after minutes. What
    # they were doing is lost with their server; the next one recovers what was committed.
    for each in Path("/proc").glob("[0-9]*"):
        if _serves(home, each.name):
            with suppress(ProcessLookupError):
                os.kill(int(each.name), signal.SIGQUIT)


def _serves(home: Home, pid: str) -> bool:
    # A zombie has no directory any more, and a recycled pid another one or another name.
    if sys.platform != "linux":
        return str(home.cluster) in _command_line(pid)
    try:
        name = Path("/proc", pid, "comm").read_text().strip()
        return name == "postgres" and home.cluster.samefile(Path("/proc", pid, "cwd"))
    except OSError:
        return False


def _is_listening(socket_dir: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(socket_dir / SOCKET_NAME))
        except BlockingIOError:
            return True  # there are more callers than it has taken yet
        except OSError:
            return False
        return True


def _check_version(home: Home, bin_dir: Path, made_by: str) -> None:
    version = version_of(bin_dir)
    if version.split(".")[0] != made_by:
        raise CannotStart(
            f"`{home.cluster}` was made by PostgreSQL {made_by}, and the programs in `{bin_dir}` "
            f"are version {version}. Name the `bin` directory of a PostgreSQL {made_by} in "
            "`RECOLLECT_POSTGRES_BIN`; to move to the newer one, export with the old and import "
            "into an empty `--data-dir`."
        )


def _initialise(home: Home, bin_dir: Path) -> None:
    # Made beside its place, one level down, and moved when whole: what an interrupted initdb
    # leaves never looks like data, nor like a cluster that someone put here under such a name.
    for left in home.path.glob("postgres.new-*"):
        if not (left / "PG_VERSION").exists():
            shutil.rmtree(left, ignore_errors=True)
    workshop = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=home.path))
    try:
        give(workshop, home.server)
        _run_initdb(home, bin_dir, workshop / "cluster")
        (workshop / "cluster").rename(home.cluster)
        # Else a loss of power could undo the move after data was saved, and we clean up workshops.
        _sync(workshop)
        _sync(home.path)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _run_initdb(home: Home, bin_dir: Path, target: Path) -> None:
    server = home.server
    _check_name(os.geteuid() if server is None else server.uid)
    done = subprocess.run(  # noqa: S603 - a program we found, with arguments of ours
        [
            bin_dir / "initdb",
            *("-D", target, "-U", "postgres", "-A", "trust", "--encoding=UTF8"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C.UTF-8"),
            *("--data-checksums", "--no-instructions"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_environment(),
        user=server.uid if server else None,
        group=server.gid if server else None,
        extra_groups=[] if server else None,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_TAIL_LINES:])
        raise CannotStart(
            f"PostgreSQL's `initdb` failed in `{home.path}`.{_disk_hint(home)} It said:\n{said}"
        )


def _check_name(uid: int) -> None:
    # `docker run --user 12345` has such a user. The server would not mind, initdb does.
    try:
        pwd.getpwuid(uid)
    except KeyError as error:
        raise CannotStart(
            f"User `{uid}` has no name on this system, and PostgreSQL's `initdb` asks for one. Add "
            "the user to `/etc/passwd`, start Recollect as another, or set `DATABASE_URL`."
        ) from error


def _command(home: Home, bin_dir: Path, socket_dir: Path) -> list[str]:
    # PostgreSQL reads a list of directories here; quoted, one with blanks stays one.
    quoted = '"' + str(socket_dir).replace('"', '""') + '"'
    settings = {
        **_SETTINGS,
        **_warmth(bin_dir),
        "shared_buffers": f"{buffers_mib()}MB",
        "maintenance_work_mem": f"{building_mib()}MB",
        "unix_socket_directories": quoted,
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(bin_dir / "postgres"), "-D", str(home.cluster), *options]


def _warmth(bin_dir: Path) -> dict[str, str]:
    """What was in its memory is read back after a restart, in the background.

    Without that the first hundreds of searches in a large workspace take longer. A PostgreSQL that
    comes without the library would not start if told to load it.
    """
    if not any((bin_dir.parent / "lib").rglob("pg_prewarm.*")):
        return {}
    return {"shared_preload_libraries": "pg_prewarm"}


def _run_keeper(home: Home, pid: int, command: list[str], ends: int | None) -> None:
    users = open_file(home.users_lock)
    alive = open_file(home.keeper_lock)
    log = open_file(home.log, flags=os.O_WRONLY | os.O_APPEND)
    # A keeper whose server has just died lets go in a moment; one that does not is no harm.
    wait_lock(alive, fcntl.LOCK_EX, timedelta(seconds=1))
    passed = [users, alive] if ends is None else [users, alive, ends]
    owner = f"{home.server.uid}:{home.server.gid}" if home.server else ""
    try:
        # A session of its own: Ctrl-C in the terminal reaches neither keeper nor server. It starts
        # as ourselves and then steps down, since the server's user may not reach our Python.
        done = subprocess.run(  # noqa: S603 - our own program
            [
                *(sys.executable, "-I", "-S", _KEEPER),
                *(",".join(str(each) for each in passed), owner, str(pid), home.cluster),
                *command,
            ],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
    finally:
        for fd in (users, alive, log):
            os.close(fd)
    if done.returncode:
        raise CannotStart(f"PostgreSQL's keeper did not start. See the end of `{home.log}`.")


def _forget_the_dead(home: Home, socket_dir: Path) -> None:
    # PostgreSQL would take a recycled pid in these files for a server that still runs.
    for path in (home.cluster / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock"):
        path.unlink(missing_ok=True)


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _MOST_LOG_BYTES:
        log.replace(log.with_name("postgres.log.1"))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"LC_ALL": "C"}


def _command_line(pid: str) -> str:
    told = subprocess.run(  # noqa: S603 - a number to a system program
        ["/bin/ps", "-ww", "-o", "command=", "-p", pid],
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout


def _disk_hint(home: Home) -> str:
    free = shutil.disk_usage(home.path).free
    return " The disk is full: make room and start again." if free < 50_000_000 else ""
