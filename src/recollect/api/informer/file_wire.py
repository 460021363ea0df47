"""Wire format of message files: base64 in JSON, or a form."""

import base64
import binascii
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import UploadFile

from recollect.api.fields import Body, iso
from recollect.api.files import MEDIA_TYPE, media_type_of, parts_of
from recollect.api.informer.wire import Short
from recollect.conversations import files as attachments
from recollect.core.domain import File
from recollect.core.errors import Invalid, TooLarge
from recollect.documents.documents import label_of
from recollect.documents.reading.values import BINARY

# This fits as base64 into a body of 8 MiB. A form may be larger.
_MAX_JSON_BYTES = 5 * 1024 * 1024


class InformerNewFile(Body):
    """A file as base64, at most 5 MiB."""

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


def to_new_file(body: bytes) -> attachments.NewMessageFile:
    """Read a file from a JSON body."""
    try:
        new = InformerNewFile.model_validate_json(body or b"null")
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(errors) from None
    try:
        content = base64.b64decode(new.data, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("`data` is not valid base64.", field="data") from None
    if len(content) > _MAX_JSON_BYTES:
        raise TooLarge("data", limit=_MAX_JSON_BYTES, size=len(content), unit="bytes")

    async def read() -> AsyncIterator[bytes]:
        yield content

    return attachments.NewMessageFile(new.filename, new.mediaType, read)


def to_new_form_file(file: UploadFile | str | None) -> attachments.NewMessageFile:
    """Read a file from a form field."""
    if not isinstance(file, UploadFile):
        raise Invalid("The form must have a file in its field `file`.", field="file")

    async def read() -> AsyncIterator[bytes]:
        await file.seek(0)
        async for part in parts_of(file):
            yield part

    media_type = media_type_of(file.content_type)
    return attachments.NewMessageFile(label_of(file.filename or ""), media_type, read)


def from_file(file: File) -> FileObject:
    """Convert a file to its wire form."""
    return FileObject(
        id=f"file-{file.code[:12]}",
        filename=file.filename,
        mediaType=file.media_type,
        size=file.size,
        createdAt=iso(file.created_at),
    )
