"""MCP on standard input and output: a message a line, and no request goes unanswered."""

import os
from collections.abc import AsyncGenerator
from typing import Any, BinaryIO, cast

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from recollect.doors import strict_json
from recollect.doors.tools.mcp_messages import Refusal, check, refusal
from recollect.errors import Invalid


async def speak(server: Server[Any]) -> None:
    """Serve until the client closes our standard input."""
    lines = _Lines(anyio.wrap_file(_take_stdin()))
    # All it does with this file is to take line after line.
    stdin = cast("anyio.AsyncFile[str]", lines.readable())
    async with stdio_server(stdin) as (incoming, outgoing):
        lines.answers = outgoing
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines:
    """What the client writes. The SDK passes over what it cannot read: that is answered here."""

    answers: Any  # where answers are sent, known as soon as there can be a line

    def __init__(self, written: anyio.AsyncFile[bytes]) -> None:
        self._written = written

    async def readable(self) -> AsyncGenerator[str]:
        """The lines that hold a message."""
        async for line in self._written:
            if not line.strip():
                continue
            try:
                strict_json.read(line)
                check(line)
            except Invalid as failure:
                await self._answer(refusal(line, failure))
            else:
                yield line.decode()

    async def _answer(self, answer: Refusal | None) -> None:
        if answer is not None:
            await self.answers.send(SessionMessage(answer))


def _take_stdin() -> BinaryIO:
    """Our standard input for us alone: whoever else reads it, such as a child, finds it ended.

    The SDK does the same where it reads by itself, and does not close it either: a thread may still
    be waiting for the next line when all is over.
    """
    ours = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(ours, "rb", closefd=False)
