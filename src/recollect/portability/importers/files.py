"""Read the files of other systems, alone, in a directory or in a zip; JSON in pieces."""

import codecs
import json
import os
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, Any

from recollect.portability.archive import check_archive
from recollect.portability.errors import UnreadableFile

_CHUNK = 1024 * 1024
# No conversation is longer than this; a longer item would exhaust memory.
_MAX_ITEM_SIZE = 64 * 1024 * 1024
_WHITESPACE = " \t\r\n"


class SourceFiles:
    """A file, directory or zip; its files are found by name pattern at any depth."""

    def __init__(self, path: Path, archive: zipfile.ZipFile | None) -> None:
        self._path = path
        self._archive = archive

    def names(self, *patterns: str) -> list[str]:
        """Return the files whose base name matches; a file that was named itself always matches."""
        if self._archive:
            entries = [each.filename for each in self._archive.infolist() if not each.is_dir()]
        elif self._path.is_dir():
            entries = [
                str(each.relative_to(self._path))
                for each in sorted(self._path.rglob("*"))
                if each.is_file() and not each.is_symlink()
            ]
        else:
            return [self._path.name]
        return sorted(
            each
            for each in entries
            if any(fnmatchcase(PurePosixPath(each).name.lower(), pattern) for pattern in patterns)
            and "__MACOSX" not in each
        )

    @property
    def is_one_file(self) -> bool:
        """Whether the source is a single file."""
        return self._archive is None and not self._path.is_dir()

    @contextmanager
    def open(self, name: str) -> Generator[IO[bytes]]:
        """Open one of the files."""
        if self._archive:
            with self._archive.open(name) as file:
                yield file
        else:
            path = self._path if self.is_one_file else self._path / name
            with path.open("rb") as file:
                yield file

    def text(self, name: str) -> str:
        """Return a whole file as text; raise `UnreadableFile` unless it is UTF-8."""
        with self.open(name) as file:
            data = file.read(_MAX_ITEM_SIZE + 1)
        if len(data) > _MAX_ITEM_SIZE:
            raise UnreadableFile(f"`{name}` is larger than {_MAX_ITEM_SIZE:,} bytes.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UnreadableFile(f"`{name}` is not UTF-8.") from None


@contextmanager
def open_files(
    path: Path, *, name: str | None = None, max_bytes: int | None = None
) -> Generator[SourceFiles]:
    """Open a file, directory or zip; raise `UnreadableFile` when it is unreadable or unsafe."""
    shown = name or str(path)
    try:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, max_bytes)
                yield SourceFiles(path, archive)
        else:
            os.stat(path)  # noqa: PTH116 - the error says why, `exists` does not
            yield SourceFiles(path, None)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnreadableFile(f"`{shown}` is damaged: it cannot be unpacked.") from error
    except OSError as error:
        raise UnreadableFile(f"`{shown}` cannot be read: {error.strerror or 'damaged'}.") from error


def read_values(file: IO[bytes]) -> Iterator[Any]:
    """Yield the JSON values of a file, one in memory at a time: array items, or one per line.

    Raises `UnreadableFile` at the first invalid value; the values before it are valid.
    """
    decoder = json.JSONDecoder(parse_constant=_reject_constant)
    pieces = codecs.getincrementaldecoder("utf-8-sig")()
    text, at, is_at_end = "", 0, False
    is_array: bool | None = None
    while True:
        while at < len(text) and (text[at] in _WHITESPACE or (is_array and text[at] == ",")):
            at += 1
        if at < len(text):
            if is_array is None:
                is_array = text[at] == "["
                at += is_array
                continue
            if is_array and text[at] == "]":
                return
            try:
                value, end = decoder.raw_decode(text, at)
            except RecursionError:
                raise UnreadableFile("It is nested too deeply.") from None
            except ValueError:
                end = -1
                value = None
            # A number at the end of the buffer may continue in the next piece.
            if end >= 0 and (end < len(text) or is_at_end):
                yield value
                at = end
                continue
        if is_at_end:
            if at < len(text) or is_array:
                raise UnreadableFile("From here on it is not valid JSON, or it is truncated.")
            return
        if len(text) - at > _MAX_ITEM_SIZE:
            raise UnreadableFile(f"One item is larger than {_MAX_ITEM_SIZE:,} characters.")
        data = file.read(max(_CHUNK, len(text) - at))
        is_at_end = not data
        try:
            text, at = text[at:] + pieces.decode(data, final=is_at_end), 0
        except UnicodeDecodeError:
            raise UnreadableFile("It is not UTF-8.") from None


def _reject_constant(_: str) -> float:
    raise ValueError("not a JSON number")
