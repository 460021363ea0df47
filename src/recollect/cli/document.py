"""`recollect document`: add, list and delete the documents of a workspace."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from recollect.api import ids
from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, operator_in
from recollect.core.errors import Invalid
from recollect.documents.documents import (
    ListDocuments,
    NewDocument,
    add_document,
    delete_document,
    list_documents,
)
from recollect.engine import Engine

_READ_BYTES = 256 * 1024
_PAGE_SIZE = 100


def add(commands: Commands) -> None:
    """Add the arguments of `document`."""
    verbs = Verbs(
        commands,
        "document",
        about="Text, Markdown, HTML, PDF, DOCX and code files are read in the background and "
        "searched together with memories. Other files are stored but not searched.",
        example="recollect document add handbook.pdf\nrecollect document list",
    )
    every = [
        verbs.add("add", "Store a file and read it in the background.", _add, "file"),
        verbs.add("list", "Show the documents of a workspace.", _list),
        verbs.add("delete", "Delete a document and its chunks.", _delete, "document"),
    ]
    for verb in every:
        verb.add_argument(
            "--workspace", help="name or id of the workspace (default: the default workspace)"
        )


async def _add(engine: Engine, args: argparse.Namespace) -> str:
    caller = await operator_in(engine, args.workspace)
    try:
        document = await add_document(engine, caller, NewDocument(args.file), _parts(args.file))
    except OSError as error:
        raise Invalid(f"`{args.file}` cannot be read: {error.strerror}.") from None
    return f"cart_{document.code}"


async def _parts(name: str) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(Path(name).open, "rb") as file:
        while part := await asyncio.to_thread(file.read, _READ_BYTES):
            yield part


async def _list(engine: Engine, args: argparse.Namespace) -> str:
    caller = await operator_in(engine, args.workspace)
    rows: list[tuple[object, ...]] = []
    ask = ListDocuments(limit=_PAGE_SIZE)
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
            return format_table(("ID", "NAME", "TYPE", "BYTES", "STATUS", "CHUNKS"), rows)
        ask = ListDocuments(limit=_PAGE_SIZE, before=(found[-1].created_at, found[-1].id))


async def _delete(engine: Engine, args: argparse.Namespace) -> str:
    ref = ids.document(args.document)
    await delete_document(engine, await operator_in(engine, args.workspace), ref)
    return "deleted"
