"""The data directory: whose it is, who may enter it, and where the server's socket lies."""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recollect.embedded.errors import CannotStart
from recollect.embedded.locks import open_file

NOBODY = 65534  # there on every system without being made; PostgreSQL refuses to run as root

# A socket's path has 108 bytes on Linux and 104 on macOS, its last one a zero.
_LONGEST_SOCKET = 100
SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Owner:
    """An unprivileged user and group."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Home:
    """A data directory. `server` is who PostgreSQL runs as when we are root, else None."""

    path: Path
    server: Owner | None

    @property
    def cluster(self) -> Path:
        """PostgreSQL's own directory."""
        return self.path / "postgres"

    @property
    def log(self) -> Path:
        """What PostgreSQL says."""
        return self.path / "postgres.log"

    @property
    def start_lock(self) -> Path:
        """Held while someone looks at, makes, starts or leaves the server."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by all who use the server; the keeper has it alone once there are none."""
        return self.path / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        """Held by a living keeper."""
        return self.path / "keeper.lock"

    @property
    def serve_lock(self) -> Path:
        """Held by the one `recollect serve`, and holds its process number."""
        return self.path / "serve.lock"


def default_data_dir() -> Path:
    """Where data goes unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/recollect")  # the server, not being root, cannot enter root's home
    # The specification of XDG: a path that is not absolute is to be ignored.
    named = Path(os.environ.get("XDG_DATA_HOME", ""))
    if named.is_absolute():
        return named / "recollect"
    try:
        return Path.home() / ".local" / "share" / "recollect"
    except RuntimeError as error:
        raise CannotStart(
            f"User `{os.geteuid()}` has no home. Name a directory with `--data-dir`."
        ) from error


def open_home(data_dir: Path) -> Home:
    """The data directory, made if needed; raise `CannotStart` where the server could not live."""
    # Resolved, so that all who name it in different ways agree on the socket's path.
    path = data_dir.resolve()
    server = _server_owner(path) if os.geteuid() == 0 else None
    _make(path, server)
    if not path.is_dir():
        raise CannotStart(f"`{path}` is not a directory. Choose another `--data-dir`.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise CannotStart(
            f"`{path}` cannot be written by user `{os.geteuid()}`. "
            "Give that user the directory or choose another `--data-dir`."
        )
    if server is not None:
        _check_reach(path, server)
    return Home(path, server)


def give(path: Path, server: Owner | None) -> None:
    """Hand a file or directory we have just made to the server's user."""
    if server is not None:
        os.chown(path, server.uid, server.gid, follow_symlinks=False)


def unreachable_part(path: Path, owner: Owner) -> Path | None:
    """The outermost directory of `path`, itself included, that `owner` cannot enter."""
    return next(
        (each for each in (*reversed(path.parents), path) if not _enters(each, owner)), None
    )


def socket_directory(home: Home) -> Path:
    """The private directory of the server's socket; call it under the start lock."""
    # Trust authentication rests on this directory: mode 0700 and the server's own. As root we
    # pass any mode, so nobody but the server's user and root gets to the socket.
    usual = home.path / "socket"
    path = str(usual / SOCKET_NAME)
    # libpq takes a comma in a path for the end of one host and the begin of the next.
    if len(os.fsencode(path)) > _LONGEST_SOCKET or "," in path:
        return _short_directory(home)
    if not usual.exists():
        usual.mkdir(mode=0o700)
        give(usual, home.server)
    if not _is_private(usual, home):
        raise CannotStart(
            f"`{usual}` must be a directory that only PostgreSQL's user can enter. Remove it."
        )
    return usual


def _server_owner(path: Path) -> Owner:
    # A directory that is a user's already stays that user's: `sudo recollect doctor` is common.
    for each in (path / "postgres", path):
        if each.exists() and (info := each.stat()).st_uid != 0:
            return Owner(info.st_uid, info.st_gid)
    return Owner(NOBODY, NOBODY)


def _make(path: Path, server: Owner | None) -> None:
    try:
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):
            _make_one(each, server, is_home=each == path)
    except OSError as error:
        raise CannotStart(
            f"`{error.filename}` cannot be made: {error.strerror}. Choose another `--data-dir`."
        ) from error


def _make_one(path: Path, server: Owner | None, *, is_home: bool) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        return  # another process is making the same
    match server:
        case None if is_home:
            path.chmod(0o700)
        case Owner(gid=gid) if is_home:
            # Root's, for the server's group to pass through, for nobody else to enter.
            os.chown(path, 0, gid)
            path.chmod(0o710)
        case Owner():
            path.chmod(0o755)  # whatever the umask: the server has to pass
        case None:
            pass


def _check_reach(path: Path, server: Owner) -> None:
    closed = unreachable_part(path, server)
    if closed is not None:
        raise CannotStart(
            f"`{closed}` is closed to user `{server.uid}`, as whom PostgreSQL runs when Recollect "
            "is started by root. Choose another `--data-dir` or let that user pass (`chmod o+x`)."
        )


def _enters(directory: Path, owner: Owner) -> bool:
    info = directory.stat()
    if info.st_uid == owner.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == owner.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)


def _short_directory(home: Home) -> Path:
    # Not under XDG_RUNTIME_DIR: that goes when its user logs out, and a server may stay.
    record = home.path / "socket.path"
    if record.exists():
        known = Path(os.fsdecode(record.read_bytes()))
        if _is_private(known, home):
            return known
    made = Path(tempfile.mkdtemp(prefix="recollect-", dir="/tmp"))
    give(made, home.server)
    fd = open_file(record)
    os.ftruncate(fd, 0)
    os.write(fd, os.fsencode(made))
    os.close(fd)
    return made


def _is_private(directory: Path, home: Home) -> bool:
    # In /tmp anyone may put a directory of that name, so whose it is matters as much as its mode.
    try:
        info = directory.lstat()
    except OSError:
        return False
    uid = os.geteuid() if home.server is None else home.server.uid
    return stat.S_ISDIR(info.st_mode) and info.st_uid == uid and not info.st_mode & 0o077
