"""The files of an export on disk: a zip, a directory, or the lines alone.

    recollect.jsonl     everything but bytes
    files/<sha-256>     the bytes of assets and files, equal ones once

Entries are never unpacked to a path that an archive names. Only the two kinds of names above are
read, and an archive with any other name is rejected.
"""

import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from recollect.core.errors import Unavailable
from recollect.engine import Engine
from recollect.portability.errors import UnreadableFile
from recollect.portability.exporting import Export, ExportScope, open_export
from recollect.portability.json_lines import encode_line

LINES = "recollect.jsonl"
FILES = "files"
_ENTRY = re.compile(rf"{FILES}/(?:[0-9a-f]{{64}})?")
_CHUNK = 256 * 1024

# The text of an export compresses to a tenth, rarely to a fiftieth; a zip bomb to a thousandth.
_MAX_RATIO = 200
_SMALL_BYTES = 64 * 1024 * 1024

OnProgress = Callable[[], None]


class ArchiveSink(Protocol):
    """A destination that an export is written to."""

    def add_line(self, text: bytes) -> None:
        """Add a line."""
        ...

    async def add_attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add the bytes with this digest, after all lines."""
        ...


async def write(export: Export, sink: ArchiveSink, on_progress: OnProgress = lambda: None) -> None:
    """Write a whole export."""
    async for line in export.lines():
        sink.add_line(encode_line(line))
        on_progress()
    async for digest, pieces in export.attachments():
        await sink.add_attachment(digest, pieces)
        on_progress()


async def spool(engine: Engine, scopes: Sequence[ExportScope]) -> IO[bytes]:
    """Write an export as a zip into an unnamed temporary file, and return it ready to be read.

    So a slow download holds no connection, and no snapshot that the database must keep.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes it
    sink = ZipSink(file)
    try:
        async with open_export(engine, scopes) as export:
            await write(export, sink)
        sink.close()
        file.seek(0)
    except OSError as error:
        _close_quietly(sink, file)
        raise Unavailable("disk") from error
    except BaseException:
        _close_quietly(sink, file)
        raise
    return file


class ZipSink:
    """A zip file, written from front to back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._lines: IO[bytes] | None = self._zip.open(LINES, "w", force_zip64=True)

    def add_line(self, text: bytes) -> None:
        """Add a line."""
        assert self._lines
        self._lines.write(text)

    async def add_attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add the bytes as an entry of the zip."""
        self._close_lines()
        # Stored without compression: most files are already compressed.
        entry = zipfile.ZipInfo(f"{FILES}/{digest}")
        with self._zip.open(entry, "w", force_zip64=True) as out:
            async for piece in pieces:
                out.write(piece)

    def close(self) -> None:
        """Write the zip's table of contents."""
        self._close_lines()
        self._zip.close()

    def _close_lines(self) -> None:
        if self._lines:
            self._lines.close()
            self._lines = None


class DirectorySink:
    """A directory with the lines and one file per attachment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / FILES).mkdir(parents=True)
        self._lines = _create(directory / LINES)

    def add_line(self, text: bytes) -> None:
        """Add a line."""
        self._lines.write(text)

    async def add_attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add the bytes as a file."""
        with _create(self._directory / FILES / digest) as out:
            async for piece in pieces:
                out.write(piece)

    def close(self) -> None:
        """Write buffered data."""
        self._lines.close()


class LinesSink:
    """The lines alone, without attachments."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add_line(self, text: bytes) -> None:
        """Add a line."""
        self._file.write(text)

    async def add_attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Skip the attachment."""
        del digest, pieces

    def close(self) -> None:
        """Write buffered data."""
        self._file.flush()


@contextmanager
def writing(target: Path, *, replace: bool) -> Generator[ArchiveSink]:
    """Open a sink by the destination's name: `-`, `….jsonl`, `….zip`, or else a directory.

    The export gets its name only when it is complete, and only its owner can read it.
    """
    if str(target) == "-":
        yield LinesSink(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if target.exists() and (target.is_dir() or not replace):
        hint = "" if target.is_dir() else ", or `--force` to replace the file"
        raise UnreadableFile(f"`{target}` already exists. Choose another name{hint}.")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        sink, file = _open_sink(target, part)
        try:
            yield sink
            sink.close()
            if file:
                file.flush()
                os.fsync(file.fileno())
        finally:
            _close_quietly(sink, file)
        part.rename(target)
    except OSError as error:
        raise UnreadableFile(f"`{target}` cannot be written: {error.strerror}.") from error
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _open_sink(
    target: Path, part: Path
) -> tuple[ZipSink | DirectorySink | LinesSink, IO[bytes] | None]:
    if target.suffix.lower() not in {".zip", ".jsonl"}:
        part.mkdir(mode=0o700)
        return DirectorySink(part), None
    file = _create(part)
    return (ZipSink(file) if target.suffix.lower() == ".zip" else LinesSink(file)), file


def _close_quietly(sink: ZipSink | DirectorySink | LinesSink, file: IO[bytes] | None) -> None:
    """Close both, whatever state they are in, and ignore errors."""
    with suppress(OSError, ValueError):
        sink.close()
    if file:
        with suppress(OSError):
            file.close()


def _create(path: Path) -> BinaryIO:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


class OpenedExport:
    """An export opened for reading: its lines, and the bytes that they refer to."""

    def __init__(self, lines: BinaryIO, size: int, find: Callable[[str], IO[bytes] | None]) -> None:
        self.lines = lines
        # The size of the lines in bytes; 0 when unknown.
        self.size = size
        self._find = find

    def pieces(self, digest: str, size: int) -> Iterator[bytes] | None:
        """Return the bytes with this digest, at most `size` + 1; None when they are missing."""
        found = self._find(digest)
        return None if found is None else _read_limited(found, size)


def _read_limited(file: IO[bytes], size: int) -> Iterator[bytes]:
    with file:
        left = size + 1  # one extra byte shows that it is longer than declared
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            left -= len(piece)
            yield piece


@contextmanager
def reading(
    path: Path, *, name: str | None = None, max_bytes: int | None = None
) -> Generator[OpenedExport]:
    """Open an export that `writing` wrote; raise `UnreadableFile` for anything else."""
    shown = name or str(path)
    try:
        if str(path) == "-":
            yield OpenedExport(sys.stdin.buffer, 0, lambda _: None)
        elif path.is_dir():
            with (path / LINES).open("rb") as lines:
                yield OpenedExport(
                    lines, os.fstat(lines.fileno()).st_size, _in_directory(path / FILES)
                )
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, max_bytes)
                entries = {each.filename for each in archive.infolist()}
                _check_names(entries)
                with archive.open(LINES) as lines:
                    size = archive.getinfo(LINES).file_size
                    yield OpenedExport(lines, size, _in_zip(archive, entries))  # pyright: ignore[reportArgumentType]
        else:
            with path.open("rb") as lines:
                yield OpenedExport(lines, os.fstat(lines.fileno()).st_size, lambda _: None)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnreadableFile(f"`{shown}` is damaged: it cannot be unpacked.") from error
    except OSError as error:
        raise UnreadableFile(f"`{shown}` cannot be read: {error.strerror or 'damaged'}.") from error


def check_archive(archive: zipfile.ZipFile, max_bytes: int | None = None) -> None:
    """Raise `UnreadableFile` for a zip bomb, an encrypted archive or duplicate names."""
    if max_bytes and sum(each.file_size for each in archive.infolist()) > max_bytes:
        raise UnreadableFile(f"The archive unpacks to more than {max_bytes:,} bytes.")
    seen: set[str] = set()
    for entry in archive.infolist():
        if entry.flag_bits & 1:
            raise UnreadableFile("The archive is encrypted. Unpack it first.")
        if entry.filename in seen:
            raise UnreadableFile("The archive has two entries with the same name.")
        seen.add(entry.filename)
        is_large = entry.file_size > _SMALL_BYTES
        if is_large and entry.file_size > _MAX_RATIO * max(entry.compress_size, 1):
            raise UnreadableFile(
                f"An entry of the archive expands more than {_MAX_RATIO} times when unpacked. "
                "If you trust it, unpack it and import the directory."
            )


def _check_names(names: set[str]) -> None:
    if LINES not in names:
        raise UnreadableFile(
            f"The archive has no `{LINES}`, so it is not an export of Recollect. For a file of "
            "another system, name the system: `--from mem0`, or `?from=mem0`."
        )
    if any(name != LINES and not _ENTRY.fullmatch(name) for name in names):
        raise UnreadableFile("The archive has entries that no export of Recollect has.")


def _in_zip(archive: zipfile.ZipFile, names: set[str]) -> Callable[[str], IO[bytes] | None]:
    def find(digest: str) -> IO[bytes] | None:
        name = f"{FILES}/{digest}"
        return archive.open(name) if name in names else None

    return find


def _in_directory(directory: Path) -> Callable[[str], IO[bytes] | None]:
    def find(digest: str) -> IO[bytes] | None:
        path = directory / digest
        return path.open("rb") if path.is_file() else None

    return find
