"""MCP over standard input and output: one message per line, and a reply to every request."""

import os
from collections.abc import AsyncGenerator
from typing import Any, BinaryIO, cast

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from recollect.api import strict_json
from recollect.api.tools.mcp_messages import ErrorMessage, check_message, error_reply
from recollect.core.errors import Invalid


async def serve_stdio(server: Server[Any]) -> None:
    """Serve until the client closes standard input."""
    lines = _Lines(anyio.wrap_file(_detach_stdin()))
    # The SDK only iterates over the lines of this file.
    stdin = cast("anyio.AsyncFile[str]", lines.messages())
    async with stdio_server(stdin) as (incoming, outgoing):
        lines.replies = outgoing
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines:
    """The client's lines. The SDK ignores lines it cannot parse, so they are answered here."""

    replies: Any  # where replies are sent; set before the first line is read

    def __init__(self, input_file: anyio.AsyncFile[bytes]) -> None:
        self._input_file = input_file

    async def messages(self) -> AsyncGenerator[str]:
        """Yield the valid messages."""
        async for line in self._input_file:
            if not line.strip():
                continue
            try:
                strict_json.read(line)
                check_message(line)
            except Invalid as failure:
                await self._send(error_reply(line, failure))
            else:
                yield line.decode()

    async def _send(self, reply: ErrorMessage | None) -> None:
        if reply is not None:
            await self.replies.send(SessionMessage(reply))


def _detach_stdin() -> BinaryIO:
    """Take over standard input: any other reader, such as a child process, gets end of file.

    The SDK does the same when it reads standard input itself. Neither closes the file, because a
    thread may still be waiting for the next line at shutdown.
    """
    private = os.dup(0)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    return os.fdopen(private, "rb", closefd=False)
