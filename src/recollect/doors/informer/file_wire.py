"""Files of messages as this door takes and gives them: as base64 in JSON, or as a form."""

import base64
import binascii
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import UploadFile

from recollect.domain import File
from recollect.doors.files import MEDIA_TYPE, media_type_of, parts_of
from recollect.doors.informer.wire import Short
from recollect.doors.values import Body, iso
from recollect.engine import attachments
from recollect.engine.documents import label_of
from recollect.errors import Invalid, TooLarge
from recollect.reading.values import BINARY

# As base64 in a body of 8 MiB; a form may bring more.
_MOST_IN_JSON = 5 * 1024 * 1024


class NewFile(Body):
    """A file as base64, at most 5 MiB of it."""

    filename: Short
    mediaType: Annotated[str, Field(pattern=f"^{MEDIA_TYPE}$")] = BINARY
    data: str


class FileObject(BaseModel):
    """A file of a message; its bytes are at `_links.self`."""

    id: str
    filename: str
    mediaType: str
    size: int
    createdAt: str


class FileList(BaseModel):
    """The files of a message."""

    files: list[FileObject]


def to_new_file(body: bytes) -> attachments.NewFile:
    """A file that came as base64 in JSON."""
    try:
        told = NewFile.model_validate_json(body or b"null")
    except ValidationError as error:
        inside = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(inside) from None
    try:
        content = base64.b64decode(told.data, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("`data` is not base64.", field="data") from None
    if len(content) > _MOST_IN_JSON:
        raise TooLarge("data", most=_MOST_IN_JSON, size=len(content), unit="bytes")

    async def read() -> AsyncIterator[bytes]:
        yield content

    return attachments.NewFile(told.filename, told.mediaType, read)


def to_sent_file(file: UploadFile | str | None) -> attachments.NewFile:
    """A file that came in a form."""
    if not isinstance(file, UploadFile):
        raise Invalid("A form needs a field `file` with a file in it.", field="file")

    async def read() -> AsyncIterator[bytes]:
        await file.seek(0)
        async for part in parts_of(file):
            yield part

    media_type = media_type_of(file.content_type)
    return attachments.NewFile(label_of(file.filename or ""), media_type, read)


def from_file(file: File) -> FileObject:
    """A file in this door's spelling."""
    return FileObject(
        id=f"file-{file.code[:12]}",
        filename=file.filename,
        mediaType=file.media_type,
        size=file.size,
        createdAt=iso(file.created_at),
    )
