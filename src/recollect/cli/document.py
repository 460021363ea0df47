"""`recollect document`: what a workspace keeps whole and finds by its chunks."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, operator_in, table
from recollect.doors import refs
from recollect.engine.core import Engine
from recollect.engine.documents import (
    ListDocuments,
    NewDocument,
    add_document,
    delete_document,
    list_documents,
)
from recollect.errors import Invalid

_AT_ONCE = 256 * 1024
_PAGE = 100


def add(commands: Commands) -> None:
    """Add the arguments of `document`."""
    verbs = Verbs(
        commands,
        "document",
        about="Text, Markdown, HTML, PDF, DOCX and code are read in the background and found "
        "beside the memories; other files are kept whole.",
        example="recollect document add handbook.pdf\nrecollect document list",
    )
    every = [
        verbs.add("add", "Keep a file and have it read.", _add, "file"),
        verbs.add("list", "Show the documents of a workspace.", _list),
        verbs.add("delete", "Delete a document and all that was made of it.", _delete, "document"),
    ]
    for verb in every:
        verb.add_argument("--workspace", help="name or id (default: the default one)")


async def _add(engine: Engine, asked: argparse.Namespace) -> str:
    caller = await operator_in(engine, asked.workspace)
    try:
        document = await add_document(engine, caller, NewDocument(asked.file), _parts(asked.file))
    except OSError as error:
        raise Invalid(f"`{asked.file}` cannot be read: {error.strerror}.") from None
    return f"cart_{document.code}"


async def _parts(name: str) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(Path(name).open, "rb") as file:
        while part := await asyncio.to_thread(file.read, _AT_ONCE):
            yield part


async def _list(engine: Engine, asked: argparse.Namespace) -> str:
    caller = await operator_in(engine, asked.workspace)
    rows: list[tuple[object, ...]] = []
    ask = ListDocuments(limit=_PAGE)
    while True:
        found, has_more = await list_documents(engine, caller, ask)
        rows += [
            (
                f"cart_{each.code}",
                each.name,
                each.media_type,
                each.size,
                each.status,
                each.chunk_count,
            )
            for each in found
        ]
        if not has_more:
            return table(("ID", "NAME", "TYPE", "BYTES", "STATUS", "CHUNKS"), rows)
        ask = ListDocuments(limit=_PAGE, before=(found[-1].created_at, found[-1].id))


async def _delete(engine: Engine, asked: argparse.Namespace) -> str:
    ref = refs.document(asked.document)
    await delete_document(engine, await operator_in(engine, asked.workspace), ref)
    return "deleted"
