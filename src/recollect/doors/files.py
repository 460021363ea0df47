"""Files on their way in and out, the same at every door: read in parts, never run, never a path."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import quote

from fastapi.responses import StreamingResponse
from starlette.datastructures import UploadFile

from recollect.reading.values import BINARY

# The letters of RFC 6838, ASCII alone: a header takes no others.
MEDIA_TYPE = r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}"
_MEDIA_TYPE = re.compile(MEDIA_TYPE)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_AT_ONCE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Sent:
    """A file to be sent, as it is stored."""

    name: str
    media_type: str
    size: int
    digest: bytes


def media_type_of(told: str | None) -> str:
    """What a file is said to be; just bytes, where that is no media type."""
    return told if told and _MEDIA_TYPE.fullmatch(told) else BINARY


async def parts_of(file: UploadFile) -> AsyncIterator[bytes]:
    """What an uploaded file holds, a part at a time."""
    while part := await file.read(_AT_ONCE):
        yield part


def download(
    file: Sent, wanted: str | None, give_out: Callable[[int, int], AsyncIterator[bytes]]
) -> StreamingResponse | None:
    """The file, or the part that a `Range` header wants; None when it has no such part.

    A browser keeps it and neither shows nor runs it, whatever it is.
    """
    span = _span(wanted, file.size)
    if span is None:
        return None
    first, last = span
    is_part = (first, last) != (0, file.size - 1)
    headers = {
        "content-length": str(last - first + 1),
        "accept-ranges": "bytes",
        "etag": f'"{bytes(file.digest).hex()}"',
        "content-disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "content-security-policy": "sandbox; default-src 'none'",
        "x-content-type-options": "nosniff",
    }
    if is_part:
        headers["content-range"] = f"bytes {first}-{last}/{file.size}"
    status = 206 if is_part else 200
    # Looked at again: an import brings it as it was written elsewhere.
    media_type = media_type_of(file.media_type)
    return StreamingResponse(give_out(first, last), status, headers, media_type=media_type)


def _span(asked: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte; the whole when nothing, or nothing we know, is asked; None beyond it."""
    found = _RANGE.fullmatch(asked or "")
    if found is None or found.groups() == ("", ""):
        return (0, size - 1)
    first, last = found.groups()
    if not first:
        return (max(0, size - int(last)), size - 1) if int(last) and size else None
    if int(first) >= size:
        return None
    end = min(int(last), size - 1) if last else size - 1
    return (int(first), end) if int(first) <= end else (0, size - 1)
