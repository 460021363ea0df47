"""The cluster, PostgreSQL's own directory: create it atomically, start its server, inspect it."""

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
from recollect.embedded.home import SOCKET_NAME, Home, give_to_server
from recollect.embedded.locks import open_file, wait_lock

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_MAX_LOG_BYTES = 10_000_000
_TAIL_LINES = 12

# Only these variables reach the server: Recollect's environment contains keys.
_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# Given on the command line, so that changes in a new release also apply to existing clusters.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",  # part of the socket's name; explicit because the environment could change it
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "password_encryption": "scram-sha-256",
    "jit": "off",
    # Query plans are poor until a table is analysed; the default would take a minute.
    "autovacuum_naptime": "10s",
    "autovacuum_work_mem": "64MB",  # the default is maintenance_work_mem, for each worker
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",  # `Launch.is_transient` searches for an English message
    "logging_collector": "off",
    # A failing statement may contain a memory, and memories must not be logged.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


# A search in a vector index reads thousands of scattered pages. The index of 100,000 memories does
# not fit in 128 MB, PostgreSQL's default: such a search took 21 ms, and 13 ms with 1 GB.
_MIN_BUFFERS_MIB = 128
_MAX_BUFFERS_MIB = 1_024
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


# A vector index should fit in this memory while it is built; otherwise the build continues on
# disk. One million halfvecs of 384 dimensions take 0.8 GB without their links.
_MIN_BUILD_MIB = 64
_MAX_BUILD_MIB = 2_048


def buffers_mib() -> int:
    """Return the size of the shared buffers: an eighth of the memory, within bounds."""
    return min(max(_eighth_mib(), _MIN_BUFFERS_MIB), _MAX_BUFFERS_MIB)


def index_build_mib() -> int:
    """Return the memory for an index build: an eighth of the memory, within other bounds."""
    return min(max(_eighth_mib(), _MIN_BUILD_MIB), _MAX_BUILD_MIB)


def _eighth_mib() -> int:
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or its text is "max"
        available = min(available, int(_CONTAINER_LIMIT.read_text()))
    return available // 8 // 2**20


@dataclass(frozen=True, slots=True)
class Launch:
    """A server that is starting."""

    home: Home
    ended: int  # the read end of a pipe that closes when the server ends
    log_start: int

    def wait_end(self, timeout: timedelta) -> bool:
        """Return whether the server ends before `timeout`."""
        pipe = select.poll()
        pipe.register(self.ended, select.POLLIN)
        return bool(pipe.poll(timeout.total_seconds() * 1000))

    def is_transient(self) -> bool:
        """Return whether the failure goes away: child processes of a killed server still run."""
        # PostgreSQL refuses to start next to them. The exit code does not show this.
        return "pre-existing shared memory block" in self._read_log()

    def failure(self) -> CannotStart:
        """Return the error to raise, with the last lines of the log."""
        tail = "\n".join(self._read_log().splitlines()[-_TAIL_LINES:])
        return CannotStart(
            f"PostgreSQL did not start on `{self.home.cluster}`. Nothing was removed."
            f"{_disk_hint(self.home)} The end of its log `{self.home.log}`:\n{tail or '(empty)'}"
        )

    def close(self) -> None:
        """Close the pipe; the server keeps running."""
        os.close(self.ended)

    def _read_log(self) -> str:
        with self.home.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")


def prepare(home: Home, bin_dir: Path) -> None:
    """Create the cluster if there is none; reject one made by another major version."""
    marker = home.cluster / "PG_VERSION"
    if marker.exists():
        _check_version(home, bin_dir, marker.read_text().strip())
    elif home.cluster.exists() and any(home.cluster.iterdir()):
        raise CannotStart(
            f"`{home.cluster}` contains files but is not a PostgreSQL cluster (it has no "
            "`PG_VERSION`). It was not changed. Move it away or choose another `--data-dir`."
        )
    else:
        _initialise(home, bin_dir)


def launch(home: Home, bin_dir: Path, socket_dir: Path) -> Launch:
    """Start the server and its supervisor without waiting for the first connection."""
    _remove_stale_pid_files(home, socket_dir)
    _rotate(home.log)
    reading, writing = os.pipe()
    try:
        log_start = home.log.stat().st_size if home.log.exists() else 0
        _run_supervisor(home, 0, _command(home, bin_dir, socket_dir), writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Launch(home, reading, log_start)


def ensure_supervisor(home: Home, pid: int) -> None:
    """Start a supervisor for a running server if its supervisor has died."""
    fd = open_file(home.supervisor_lock)
    is_free = wait_lock(fd, fcntl.LOCK_EX, timedelta(0))
    os.close(fd)
    if is_free:
        _run_supervisor(home, pid, [], None)


def running_pid(home: Home) -> int | None:
    """Return the process id of this cluster's server if it runs, even if it does not respond."""
    try:
        pid = int((home.cluster / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if _serves(home, str(pid)) else None


def is_alive(home: Home, socket_dir: Path) -> bool:
    """Return whether a server of this cluster runs, even if it does not respond yet."""
    # A server in another container on the same directory has no visible process, but its socket
    # accepts connections. Starting a second server there would destroy the data.
    return running_pid(home) is not None or _is_listening(socket_dir)


def end_orphans(home: Home) -> None:
    """End the child processes of a killed server; call it only if no server is running."""
    # They end by themselves, but an index build takes minutes to notice. Their work is lost with
    # their server; the next server recovers everything that was committed.
    for each in Path("/proc").glob("[0-9]*"):
        if _serves(home, each.name):
            with suppress(ProcessLookupError):
                os.kill(int(each.name), signal.SIGQUIT)


def _serves(home: Home, pid: str) -> bool:
    # A zombie has no directory, and a reused pid has another directory or name.
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
            return True  # the queue of pending connections is full
        except OSError:
            return False
        return True


def _check_version(home: Home, bin_dir: Path, made_by: str) -> None:
    version = version_of(bin_dir)
    if version.split(".")[0] != made_by:
        raise CannotStart(
            f"`{home.cluster}` was made by PostgreSQL {made_by}, and the programs in `{bin_dir}` "
            f"are version {version}. Set `RECOLLECT_POSTGRES_BIN` to the `bin` directory of a "
            f"PostgreSQL {made_by}. To change the version, export with the old one and import "
            "into an empty `--data-dir`."
        )


def _initialise(home: Home, bin_dir: Path) -> None:
    # Created one level down in a scratch directory and moved when complete. An interrupted initdb
    # thus never leaves anything that looks like data. A cluster that a user put under such a name
    # has a `PG_VERSION` at its top and is not removed.
    for left in home.path.glob("postgres.new-*"):
        if not (left / "PG_VERSION").exists():
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=home.path))
    try:
        give_to_server(scratch, home.server)
        _run_initdb(home, bin_dir, scratch / "cluster")
        (scratch / "cluster").rename(home.cluster)
        # Without this, a power failure could undo the move after data was saved, and the next start
        # would remove the scratch directory with the data.
        _sync(scratch)
        _sync(home.path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _run_initdb(home: Home, bin_dir: Path, target: Path) -> None:
    server = home.server
    _check_user_name(os.geteuid() if server is None else server.uid)
    done = subprocess.run(  # noqa: S603 - a program we found, with our own arguments
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
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_TAIL_LINES:])
        raise CannotStart(
            f"PostgreSQL's `initdb` failed in `{home.path}`.{_disk_hint(home)} Its output:\n{tail}"
        )


def _check_user_name(uid: int) -> None:
    # `docker run --user 12345` creates a user without a name. Only initdb needs one.
    try:
        pwd.getpwuid(uid)
    except KeyError as error:
        raise CannotStart(
            f"User `{uid}` has no name on this system, and PostgreSQL's `initdb` needs one. Add "
            "the user to `/etc/passwd`, start Recollect as another user, or set `DATABASE_URL`."
        ) from error


def _command(home: Home, bin_dir: Path, socket_dir: Path) -> list[str]:
    # The setting is a list of directories; the quotes keep a path with spaces or commas together.
    quoted = '"' + str(socket_dir).replace('"', '""') + '"'
    settings = {
        **_SETTINGS,
        **_prewarm_settings(bin_dir),
        "shared_buffers": f"{buffers_mib()}MB",
        "maintenance_work_mem": f"{index_build_mib()}MB",
        "unix_socket_directories": quoted,
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(bin_dir / "postgres"), "-D", str(home.cluster), *options]


def _prewarm_settings(bin_dir: Path) -> dict[str, str]:
    """Return settings that reload the shared buffers in the background after a restart.

    Without them, the first few hundred searches in a large workspace take longer. PostgreSQL does
    not start if a library to preload is missing, so the library is checked first.
    """
    if not any((bin_dir.parent / "lib").rglob("pg_prewarm.*")):
        return {}
    return {"shared_preload_libraries": "pg_prewarm"}


def _run_supervisor(home: Home, pid: int, command: list[str], ended: int | None) -> None:
    users = open_file(home.users_lock)
    alive = open_file(home.supervisor_lock)
    log = open_file(home.log, flags=os.O_WRONLY | os.O_APPEND)
    # A supervisor whose server has just died releases the lock in a moment. A second supervisor is
    # harmless.
    wait_lock(alive, fcntl.LOCK_EX, timedelta(seconds=1))
    passed = [users, alive] if ended is None else [users, alive, ended]
    owner = f"{home.server.uid}:{home.server.gid}" if home.server else ""
    try:
        # A separate session, so that Ctrl-C in the terminal reaches neither supervisor nor server.
        # It starts as our user and then drops privileges: the server's user may not reach our
        # Python.
        done = subprocess.run(  # noqa: S603 - our own program
            [
                *(sys.executable, "-I", "-S", _SUPERVISOR),
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
        raise CannotStart(f"PostgreSQL's supervisor did not start. See the end of `{home.log}`.")


def _remove_stale_pid_files(home: Home, socket_dir: Path) -> None:
    # If another process now has the pid in these files, PostgreSQL would refuse to start.
    for path in (home.cluster / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock"):
        path.unlink(missing_ok=True)


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_name("postgres.log.1"))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | {
        "LC_ALL": "C"
    }


def _command_line(pid: str) -> str:
    done = subprocess.run(  # noqa: S603 - a system program with a number
        ["/bin/ps", "-ww", "-o", "command=", "-p", pid],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def _disk_hint(home: Home) -> str:
    free = shutil.disk_usage(home.path).free
    return " The disk is full: free some space and start again." if free < 50_000_000 else ""
