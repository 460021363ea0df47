"""The backup file: a tar with the dump and then a manifest. An incomplete one is rejected.

Any `tar` program can read it and `pg_restore` can read the dump, so it is useful even without
Recollect.
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

from recollect.portability.dump import CHUNK, CannotCopy

FORMAT = 1

_DUMP = "recollect.dump"
_MANIFEST = "manifest.json"
_BLOCK = tarfile.BLOCKSIZE
_MAX_MANIFEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """The metadata of a backup."""

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
    # Backups made before the migrations were squashed do not have it.
    migration_name: str | None = None


class BackupWriter:
    """Writes a backup to a private file next to its target; deletes it unless finished."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.part = target.with_name(f".{target.name}.{os.getpid()}.part")
        self.dump_bytes = 0
        self._digest = hashlib.sha256()
        self._file = open(  # noqa: SIM115 - closed by __exit__; the opener sets the mode
            self.part, "xb+", opener=lambda path, flags: os.open(path, flags, 0o600)
        )
        self._file.write(bytes(_BLOCK))  # the header is written when the size is known

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
        """The digest of the dump so far."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Append to the dump."""
        self._file.write(piece)
        self._digest.update(piece)
        self.dump_bytes += len(piece)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the dump as it was written to disk."""
        self._file.flush()
        async for piece in _section(self.part, _BLOCK, self.dump_bytes):
            yield piece

    def finish(self, manifest: Manifest, *, replace: bool) -> None:
        """Add the manifest, sync everything to disk, and rename the file to its target."""
        text = json.dumps(asdict(manifest), indent=2).encode() + b"\n"
        self._file.write(bytes(-self.dump_bytes % _BLOCK))
        self._file.write(_header(_MANIFEST, len(text)) + text + bytes(-len(text) % _BLOCK))
        self._file.write(bytes(2 * _BLOCK))  # the end of a tar file
        self._file.seek(0)
        self._file.write(_header(_DUMP, self.dump_bytes))
        self._file.flush()
        os.fsync(self._file.fileno())
        refuse_existing(self.target, replace=replace)
        self.part.rename(self.target)
        _sync(self.target.parent)


def refuse_existing(target: Path, *, replace: bool) -> None:
    """Raise `CannotCopy` when the target already exists, unless it may be replaced."""
    if target.is_dir() or (target.exists() and not replace):
        raise CannotCopy(
            f"`{target}` already exists. Choose another name, or use `--force` to replace the file."
        )


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup whose checksum was verified."""

    path: Path
    manifest: Manifest
    offset: int

    def read(self) -> AsyncIterator[bytes]:
        """Yield the dump."""
        return _section(self.path, self.offset, self.manifest.dump_bytes)


def open_backup(path: Path) -> Backup:
    """Open a backup and verify its checksum; raise `CannotCopy` for anything else."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            dump, manifest = tar.getmember(_DUMP), _read_manifest(tar)
            file.seek(dump.offset_data)
            digest = _digest_of(file, dump.size)
    except OSError as error:
        raise CannotCopy(f"`{path}` cannot be read: {error.strerror}.") from error
    except (tarfile.TarError, KeyError, ValueError, TypeError) as error:
        raise CannotCopy(f"`{path}` is not a backup of Recollect, or it is incomplete.") from error
    if manifest.format > FORMAT:
        raise CannotCopy(
            f"`{path}` was made by a newer Recollect ({manifest.recollect}). Upgrade first."
        )
    if dump.size != manifest.dump_bytes or digest != manifest.dump_sha256:
        raise CannotCopy(f"`{path}` is damaged: its checksum does not match.")
    return Backup(path, manifest, dump.offset_data)


def _read_manifest(tar: tarfile.TarFile) -> Manifest:
    member = tar.getmember(_MANIFEST)
    file = tar.extractfile(member)
    if file is None or member.size > _MAX_MANIFEST_BYTES:
        raise ValueError(member.name)
    values: dict[str, Any] = json.loads(file.read())
    names = Manifest.__dataclass_fields__.keys() - {"migration_name"}
    known = {name: values[name] for name in names}
    return Manifest(**known, migration_name=values.get("migration_name"))


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
    return info.tobuf(tarfile.GNU_FORMAT)  # this format supports sizes over 8 GB


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
