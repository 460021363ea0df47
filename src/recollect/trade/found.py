"""Files of other systems: alone, in a directory or in a zip; JSON read piece by piece."""

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

from recollect.trade.archive import check_archive
from recollect.trade.errors import Unreadable

_CHUNK = 1024 * 1024
# One conversation is never longer than this; whatever is would fill the memory.
_MOST_CHARACTERS = 64 * 1024 * 1024
_BETWEEN = " \t\r\n"


class Found:
    """What somebody pointed at; its files are found by pattern, wherever they lie in it."""

    def __init__(self, path: Path, archive: zipfile.ZipFile | None) -> None:
        self._path = path
        self._archive = archive

    def names(self, *patterns: str) -> list[str]:
        """The files whose own name fits; one that was named outright fits always."""
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
            if any(fnmatchcase(PurePosixPath(each).name.lower(), one) for one in patterns)
            and "__MACOSX" not in each
        )

    @property
    def is_one_file(self) -> bool:
        """Whether a single file was named."""
        return self._archive is None and not self._path.is_dir()

    @contextmanager
    def open(self, name: str) -> Generator[IO[bytes]]:
        """One of the files."""
        if self._archive:
            with self._archive.open(name) as file:
                yield file
        else:
            path = self._path if self.is_one_file else self._path / name
            with path.open("rb") as file:
                yield file

    def text(self, name: str) -> str:
        """A whole file as text; raise `Unreadable` unless it is UTF-8."""
        with self.open(name) as file:
            data = file.read(_MOST_CHARACTERS + 1)
        if len(data) > _MOST_CHARACTERS:
            raise Unreadable(f"`{name}` is larger than {_MOST_CHARACTERS:,} bytes.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unreadable(f"`{name}` is not UTF-8.") from None


@contextmanager
def find(path: Path, *, name: str | None = None, most_bytes: int | None = None) -> Generator[Found]:
    """Open a file, a directory or a zip; raise `Unreadable` when it cannot be, or must not be."""
    shown = name or str(path)
    try:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, most_bytes)
                yield Found(path, archive)
        else:
            os.stat(path)  # noqa: PTH116 - says why not, where `exists` only says no
            yield Found(path, None)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise Unreadable(f"`{shown}` is damaged: it cannot be unpacked.") from error
    except OSError as error:
        raise Unreadable(f"`{shown}` cannot be read: {error.strerror or 'damaged'}.") from error


def values(file: IO[bytes]) -> Iterator[Any]:
    """The JSON values of a file, one in memory at a time: the items of an array, or line by line.

    Raises `Unreadable` where it cannot go on; what came before was good.
    """
    decoder = json.JSONDecoder(parse_constant=_no_number)
    pieces = codecs.getincrementaldecoder("utf-8-sig")()
    text, at, is_over = "", 0, False
    is_array: bool | None = None
    while True:
        while at < len(text) and (text[at] in _BETWEEN or (is_array and text[at] == ",")):
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
                raise Unreadable("It is nested too deeply.") from None
            except ValueError:
                end = -1
                value = None
            # A number at the end of what was read may go on behind it.
            if end >= 0 and (end < len(text) or is_over):
                yield value
                at = end
                continue
        if is_over:
            if at < len(text) or is_array:
                raise Unreadable("It is no valid JSON from here on, or was cut off.")
            return
        if len(text) - at > _MOST_CHARACTERS:
            raise Unreadable("One item is larger than anything we would read.")
        data = file.read(max(_CHUNK, len(text) - at))
        is_over = not data
        try:
            text, at = text[at:] + pieces.decode(data, final=is_over), 0
        except UnicodeDecodeError:
            raise Unreadable("It is not UTF-8.") from None


def _no_number(_: str) -> float:
    raise ValueError("no JSON number")
