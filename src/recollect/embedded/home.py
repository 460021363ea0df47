"""The data directory: its owner, its permissions, and the location of the server's socket."""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recollect.embedded.errors import CannotStart
from recollect.embedded.locks import open_file

NOBODY = 65534  # exists on every system; PostgreSQL refuses to run as root

# The limit is 108 bytes on Linux and 104 on macOS, including a final zero byte.
_MAX_SOCKET_PATH_BYTES = 100
SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Owner:
    """An unprivileged user and group."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Home:
    """A data directory. `server` is the user PostgreSQL runs as if we are root, else None."""

    path: Path
    server: Owner | None

    @property
    def cluster(self) -> Path:
        """PostgreSQL's own directory."""
        return self.path / "postgres"

    @property
    def log(self) -> Path:
        """PostgreSQL's log file."""
        return self.path / "postgres.log"

    @property
    def start_lock(self) -> Path:
        """Held while a process inspects, creates, starts or detaches from the server."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by all users of the server; the supervisor takes it when none is left."""
        return self.path / "users.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the running supervisor."""
        return self.path / "supervisor.lock"

    @property
    def serve_lock(self) -> Path:
        """Held by the one `recollect serve`; contains its process id."""
        return self.path / "serve.lock"


def default_data_dir() -> Path:
    """Return the data directory to use if none is configured."""
    if os.geteuid() == 0:
        return Path("/var/lib/recollect")  # the server is not root and cannot enter root's home
    # The XDG specification says to ignore paths that are not absolute.
    data_home = Path(os.environ.get("XDG_DATA_HOME", ""))
    if data_home.is_absolute():
        return data_home / "recollect"
    try:
        return Path.home() / ".local" / "share" / "recollect"
    except RuntimeError as error:
        raise CannotStart(
            f"User `{os.geteuid()}` has no home directory. Set a directory with `--data-dir`."
        ) from error


def open_home(data_dir: Path) -> Home:
    """Create the data directory if needed; raise `CannotStart` if the server cannot use it."""
    # Resolved, so that all processes use the same socket path, however they write the directory.
    path = data_dir.resolve()
    server = _server_owner(path) if os.geteuid() == 0 else None
    _create(path, server)
    if not path.is_dir():
        raise CannotStart(f"`{path}` is not a directory. Choose another `--data-dir`.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise CannotStart(
            f"User `{os.geteuid()}` cannot write to `{path}`. "
            "Change its owner or choose another `--data-dir`."
        )
    if server is not None:
        _check_reach(path, server)
    return Home(path, server)


def give_to_server(path: Path, server: Owner | None) -> None:
    """Make the server's user the owner of a file or directory we have just created."""
    if server is not None:
        os.chown(path, server.uid, server.gid, follow_symlinks=False)


def unreachable_part(path: Path, owner: Owner) -> Path | None:
    """Return the outermost directory of `path`, including itself, that `owner` cannot enter."""
    return next(
        (each for each in (*reversed(path.parents), path) if not _can_enter(each, owner)), None
    )


def socket_directory(home: Home) -> Path:
    """Return the private directory of the server's socket; call it with the start lock held."""
    # Trust authentication is safe because of this directory: its mode is 0700 and the server owns
    # it, so only the server's user and root can reach the socket.
    default = home.path / "socket"
    path = str(default / SOCKET_NAME)
    # libpq treats a comma in a path as a separator between hosts.
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES or "," in path:
        return _short_socket_directory(home)
    if not default.exists():
        default.mkdir(mode=0o700)
        give_to_server(default, home.server)
    if not _is_private(default, home):
        raise CannotStart(
            f"`{default}` must be a directory that only PostgreSQL's user can enter. Remove it."
        )
    return default


def _server_owner(path: Path) -> Owner:
    # Keep the existing owner: `sudo recollect doctor` is common.
    for each in (path / "postgres", path):
        if each.exists() and (info := each.stat()).st_uid != 0:
            return Owner(info.st_uid, info.st_gid)
    return Owner(NOBODY, NOBODY)


def _create(path: Path, server: Owner | None) -> None:
    try:
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):
            _create_one(each, server, is_home=each == path)
    except OSError as error:
        raise CannotStart(
            f"`{error.filename}` cannot be created: {error.strerror}. Choose another `--data-dir`."
        ) from error


def _create_one(path: Path, server: Owner | None, *, is_home: bool) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        return  # another process has created it
    match server:
        case None if is_home:
            path.chmod(0o700)
        case Owner(gid=gid) if is_home:
            # Owned by root. The server's group may pass through it; other users may not enter.
            os.chown(path, 0, gid)
            path.chmod(0o710)
        case Owner():
            path.chmod(0o755)  # regardless of the umask: the server must pass through
        case None:
            pass


def _check_reach(path: Path, server: Owner) -> None:
    closed = unreachable_part(path, server)
    if closed is not None:
        raise CannotStart(
            f"User `{server.uid}`, which runs PostgreSQL when root starts Recollect, cannot enter "
            f"`{closed}`. Choose another `--data-dir` or give it access with `chmod o+x`."
        )


def _can_enter(directory: Path, owner: Owner) -> bool:
    info = directory.stat()
    if info.st_uid == owner.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == owner.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)


def _short_socket_directory(home: Home) -> Path:
    # Not under XDG_RUNTIME_DIR: that is removed when its user logs out, but a server may keep
    # running.
    record = home.path / "socket.path"
    if record.exists():
        known = Path(os.fsdecode(record.read_bytes()))
        if _is_private(known, home):
            return known
    made = Path(tempfile.mkdtemp(prefix="recollect-", dir="/tmp"))
    give_to_server(made, home.server)
    fd = open_file(record)
    os.ftruncate(fd, 0)
    os.write(fd, os.fsencode(made))
    os.close(fd)
    return made


def _is_private(directory: Path, home: Home) -> bool:
    # Any user can create a directory in /tmp, so its owner matters as much as its mode.
    try:
        info = directory.lstat()
    except OSError:
        return False
    uid = os.geteuid() if home.server is None else home.server.uid
    return stat.S_ISDIR(info.st_mode) and info.st_uid == uid and not info.st_mode & 0o077
