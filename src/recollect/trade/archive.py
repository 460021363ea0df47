"""The form an export has on disk: a zip, a directory, or the lines alone.

    recollect.jsonl     everything but bytes
    files/<sha-256>     the bytes of assets and files, equal ones once

Nothing is ever unpacked to where a name in an archive says: entries are read by the two names that
are ours, and an archive that holds any other is refused.
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

from recollect.engine.core import Engine
from recollect.engine.exports import Choice, Leaving, leaving
from recollect.errors import Unavailable
from recollect.trade.errors import Unreadable
from recollect.trade.lines import encoded

LINES = "recollect.jsonl"
FILES = "files"
_ENTRY = re.compile(rf"{FILES}/(?:[0-9a-f]{{64}})?")
_CHUNK = 256 * 1024

# Text of ours shrinks to a tenth, seldom to a fiftieth; a bomb to a thousandth.
_MOST_RATIO = 200
_SMALL_BYTES = 64 * 1024 * 1024

Watch = Callable[[], None]


class Sink(Protocol):
    """What an export is written into."""

    def line(self, text: bytes) -> None:
        """Add a line."""
        ...

    async def attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add the bytes of a digest, when all lines are there."""
        ...


async def write(export: Leaving, sink: Sink, watch: Watch = lambda: None) -> None:
    """Write a whole export."""
    async for line in export.lines():
        sink.line(encoded(line))
        watch()
    async for digest, pieces in export.attachments():
        await sink.attachment(digest, pieces)
        watch()


async def spooled(engine: Engine, choices: Sequence[Choice]) -> IO[bytes]:
    """An export as a zip in a file without a name, ready to be read.

    Whoever reads it slowly holds no connection, and no snapshot that the database must keep.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever reads it closes it
    sink = ZipSink(file)
    try:
        async with leaving(engine, choices) as export:
            await write(export, sink)
        sink.close()
        file.seek(0)
    except OSError as error:
        _abandon(sink, file)
        raise Unavailable("disk") from error
    except BaseException:
        _abandon(sink, file)
        raise
    return file


class ZipSink:
    """A zip, written from front to back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._lines: IO[bytes] | None = self._zip.open(LINES, "w", force_zip64=True)

    def line(self, text: bytes) -> None:
        """Add a line."""
        assert self._lines
        self._lines.write(text)

    async def attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add an entry of its own."""
        self._end_lines()
        # As they are: most files are compressed already.
        entry = zipfile.ZipInfo(f"{FILES}/{digest}")
        with self._zip.open(entry, "w", force_zip64=True) as out:
            async for piece in pieces:
                out.write(piece)

    def close(self) -> None:
        """Write the table of contents."""
        self._end_lines()
        self._zip.close()

    def _end_lines(self) -> None:
        if self._lines:
            self._lines.close()
            self._lines = None


class DirectorySink:
    """A directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / FILES).mkdir(parents=True)
        self._lines = _create(directory / LINES)

    def line(self, text: bytes) -> None:
        """Add a line."""
        self._lines.write(text)

    async def attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Add a file of its own."""
        with _create(self._directory / FILES / digest) as out:
            async for piece in pieces:
                out.write(piece)

    def close(self) -> None:
        """Write what is still on its way."""
        self._lines.close()


class LinesSink:
    """The lines alone; bytes are left out."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def line(self, text: bytes) -> None:
        """Add a line."""
        self._file.write(text)

    async def attachment(self, digest: str, pieces: AsyncGenerator[bytes]) -> None:
        """Leave it out."""
        del digest, pieces

    def close(self) -> None:
        """Write what is still on its way."""
        self._file.flush()


@contextmanager
def writing(goal: Path, *, replace: bool) -> Generator[Sink]:
    """A sink for a goal, by its name: `-`, `….jsonl`, `….zip`, or else a directory.

    What is written appears under its name when it is complete, readable by its owner alone.
    """
    if str(goal) == "-":
        yield LinesSink(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if goal.exists() and (goal.is_dir() or not replace):
        hint = "" if goal.is_dir() else ", or `--force` to replace the file"
        raise Unreadable(f"`{goal}` exists. Choose another name{hint}.")
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    try:
        sink, file = _open_sink(goal, part)
        try:
            yield sink
            sink.close()
            if file:
                file.flush()
                os.fsync(file.fileno())
        finally:
            _abandon(sink, file)
        part.rename(goal)
    except OSError as error:
        raise Unreadable(f"`{goal}` cannot be written: {error.strerror}.") from error
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _open_sink(
    goal: Path, part: Path
) -> tuple[ZipSink | DirectorySink | LinesSink, IO[bytes] | None]:
    if goal.suffix.lower() not in {".zip", ".jsonl"}:
        part.mkdir(mode=0o700)
        return DirectorySink(part), None
    file = _create(part)
    return (ZipSink(file) if goal.suffix.lower() == ".zip" else LinesSink(file)), file


def _abandon(sink: ZipSink | DirectorySink | LinesSink, file: IO[bytes] | None) -> None:
    """Let go of both, whatever state they are in; what is complete stays so."""
    with suppress(OSError, ValueError):
        sink.close()
    if file:
        with suppress(OSError):
            file.close()


def _create(path: Path) -> BinaryIO:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


class Opened:
    """An export that can be read: its lines, and the bytes of what they name."""

    def __init__(self, lines: BinaryIO, size: int, find: Callable[[str], IO[bytes] | None]) -> None:
        self.lines = lines
        # How many bytes the lines have; 0 when nobody can say.
        self.size = size
        self._find = find

    def pieces(self, digest: str, size: int) -> Iterator[bytes] | None:
        """The bytes of that digest, no more than `size` and one; None when they are missing."""
        found = self._find(digest)
        return None if found is None else _limited(found, size)


def _limited(file: IO[bytes], most: int) -> Iterator[bytes]:
    with file:
        left = most + 1  # one byte more shows that it is longer than it says
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            left -= len(piece)
            yield piece


@contextmanager
def reading(
    path: Path, *, name: str | None = None, most_bytes: int | None = None
) -> Generator[Opened]:
    """Open what `writing` wrote; raise `Unreadable` for anything else."""
    shown = name or str(path)
    try:
        if str(path) == "-":
            yield Opened(sys.stdin.buffer, 0, lambda _: None)
        elif path.is_dir():
            with (path / LINES).open("rb") as lines:
                yield Opened(lines, os.fstat(lines.fileno()).st_size, _in_directory(path / FILES))
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, most_bytes)
                entries = {each.filename for each in archive.infolist()}
                _refuse_others(entries)
                with archive.open(LINES) as lines:
                    size = archive.getinfo(LINES).file_size
                    yield Opened(lines, size, _in_zip(archive, entries))  # pyright: ignore[reportArgumentType]
        else:
            with path.open("rb") as lines:
                yield Opened(lines, os.fstat(lines.fileno()).st_size, lambda _: None)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise Unreadable(f"`{shown}` is damaged: it cannot be unpacked.") from error
    except OSError as error:
        raise Unreadable(f"`{shown}` cannot be read: {error.strerror or 'damaged'}.") from error


def check_archive(archive: zipfile.ZipFile, most_bytes: int | None = None) -> None:
    """Raise `Unreadable` for an archive that grows beyond reason, or hides what it has."""
    if most_bytes and sum(each.file_size for each in archive.infolist()) > most_bytes:
        raise Unreadable(f"The archive unpacks to more than {most_bytes:,} bytes.")
    seen: set[str] = set()
    for entry in archive.infolist():
        if entry.flag_bits & 1:
            raise Unreadable("The archive is encrypted. Unpack it first.")
        if entry.filename in seen:
            raise Unreadable("The archive holds two entries of one name.")
        seen.add(entry.filename)
        is_large = entry.file_size > _SMALL_BYTES
        if is_large and entry.file_size > _MOST_RATIO * max(entry.compress_size, 1):
            raise Unreadable(
                f"An entry of the archive grows more than {_MOST_RATIO} times when unpacked. "
                "If you trust it, unpack it and name the directory."
            )


def _refuse_others(names: set[str]) -> None:
    if LINES not in names:
        raise Unreadable(
            f"The archive holds no `{LINES}`: it is no export of Recollect. For what other systems "
            "write, say which wrote it: `--from mem0`, or `?from=mem0`."
        )
    if any(name != LINES and not _ENTRY.fullmatch(name) for name in names):
        raise Unreadable("The archive holds names that no export of Recollect has.")


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
