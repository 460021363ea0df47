"""The file a backup is: a tar with the dump and then a manifest, whole or refused.

Any `tar` can look into it, and `pg_restore` reads the dump, should Recollect not be at hand.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recollect.dumps import CHUNK, CannotCopy

FORMAT = 1

_DUMP = "recollect.dump"
_MANIFEST = "manifest.json"
_BLOCK = tarfile.BLOCKSIZE
_MOST_MANIFEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says about itself."""

    format: int
    recollect: str
    made_at: str
    postgres: str
    migration: int
    schema: str
    vector_schema: str
    dump_bytes: int
    dump_sha256: str
    rows: Mapping[str, int]


class Writing:
    """A backup on its way: a private file beside its goal, gone unless it is finished."""

    def __init__(self, goal: Path) -> None:
        self.goal = goal
        self.part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
        self.dump_bytes = 0
        self._digest = hashlib.sha256()
        self._file = open(  # noqa: SIM115 - closed by __exit__; the opener sets the mode
            self.part, "xb+", opener=lambda path, flags: os.open(path, flags, 0o600)
        )
        self._file.write(bytes(_BLOCK))  # the header comes when the size is known

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self.part.unlink(missing_ok=True)

    @property
    def dump_sha256(self) -> str:
        """The digest of what has been written."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Add to the dump."""
        self._file.write(piece)
        self._digest.update(piece)
        self.dump_bytes += len(piece)

    async def read(self) -> AsyncIterator[bytes]:
        """The dump as it arrived on the disk."""
        self._file.flush()
        async for piece in _section(self.part, _BLOCK, self.dump_bytes):
            yield piece

    def finish(self, manifest: Manifest, *, replace: bool) -> None:
        """Add the manifest and give the file its name, when every byte is on the disk."""
        text = json.dumps(asdict(manifest), indent=2).encode() + b"\n"
        self._file.write(bytes(-self.dump_bytes % _BLOCK))
        self._file.write(_header(_MANIFEST, len(text)) + text + bytes(-len(text) % _BLOCK))
        self._file.write(bytes(2 * _BLOCK))  # how a tar ends
        self._file.seek(0)
        self._file.write(_header(_DUMP, self.dump_bytes))
        self._file.flush()
        os.fsync(self._file.fileno())
        refuse_existing(self.goal, replace=replace)
        self.part.rename(self.goal)
        _sync(self.goal.parent)


def refuse_existing(goal: Path, *, replace: bool) -> None:
    """Raise when the goal is there already, unless it may be replaced."""
    if goal.is_dir() or (goal.exists() and not replace):
        raise CannotCopy(f"`{goal}` exists. Choose another name, or `--force` to replace the file.")


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was found whole."""

    path: Path
    manifest: Manifest
    offset: int

    def read(self) -> AsyncIterator[bytes]:
        """The dump."""
        return _section(self.path, self.offset, self.manifest.dump_bytes)


def open_backup(path: Path) -> Backup:
    """A backup whose every byte was checked; raise `CannotCopy` when it is anything else."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            dump, manifest = tar.getmember(_DUMP), _read_manifest(tar)
            file.seek(dump.offset_data)
            digest = _digest_of(file, dump.size)
    except OSError as error:
        raise CannotCopy(f"`{path}` cannot be read: {error.strerror}.") from error
    except (tarfile.TarError, KeyError, ValueError, TypeError) as error:
        raise CannotCopy(f"`{path}` is no backup of Recollect, or not a whole one.") from error
    if manifest.format > FORMAT:
        raise CannotCopy(f"`{path}` was made by a newer Recollect ({manifest.recollect}).")
    if dump.size != manifest.dump_bytes or digest != manifest.dump_sha256:
        raise CannotCopy(f"`{path}` is damaged: its checksum is not the one it was made with.")
    return Backup(path, manifest, dump.offset_data)


def _read_manifest(tar: tarfile.TarFile) -> Manifest:
    member = tar.getmember(_MANIFEST)
    file = tar.extractfile(member)
    if file is None or member.size > _MOST_MANIFEST_BYTES:
        raise ValueError(member.name)
    values: dict[str, Any] = json.loads(file.read())
    known = {name: values[name] for name in Manifest.__dataclass_fields__}
    return Manifest(**known)


def _digest_of(file: io.BufferedReader, size: int) -> str:
    digest = hashlib.sha256()
    while size and (piece := file.read(min(CHUNK, size))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


async def _section(path: Path, offset: int, size: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        while size and (piece := file.read(min(CHUNK, size))):
            yield piece
            size -= len(piece)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)  # which also knows sizes over 8 GB


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
