"""Uploads and downloads, the same at every interface: streamed, never executed, never a path."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import quote

from fastapi.responses import StreamingResponse
from starlette.datastructures import UploadFile

from recollect.documents.reading.values import BINARY

# The characters of RFC 6838. Headers must be ASCII.
MEDIA_TYPE = r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}"
_MEDIA_TYPE = re.compile(MEDIA_TYPE)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file to download."""

    name: str
    media_type: str
    size: int
    digest: bytes


def media_type_of(declared: str | None) -> str:
    """The declared media type, or plain bytes if it is not a valid one."""
    return declared if declared and _MEDIA_TYPE.fullmatch(declared) else BINARY


async def parts_of(file: UploadFile) -> AsyncIterator[bytes]:
    """The bytes of an uploaded file, part by part."""
    while part := await file.read(_CHUNK_BYTES):
        yield part


def download(
    file: StoredFile,
    range_header: str | None,
    read_range: Callable[[int, int], AsyncIterator[bytes]],
) -> StreamingResponse | None:
    """The file, or the part named by a `Range` header. None if the range is not satisfiable.

    The headers make a browser save the file; it neither shows nor executes it.
    """
    span = _span(range_header, file.size)
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
    # Check again: an import may have stored an invalid media type.
    media_type = media_type_of(file.media_type)
    return StreamingResponse(read_range(first, last), status, headers, media_type=media_type)


def _span(range_header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte. The whole file without a known range; None beyond the end."""
    found = _RANGE.fullmatch(range_header or "")
    if found is None or found.groups() == ("", ""):
        return (0, size - 1)
    first, last = found.groups()
    if not first:
        return (max(0, size - int(last)), size - 1) if int(last) and size else None
    if int(first) >= size:
        return None
    end = min(int(last), size - 1) if last else size - 1
    return (int(first), end) if int(first) <= end else (0, size - 1)
