"""A chat endpoint that answers at once from prepared bytes: `python -m bench.upstream`.

A request's `max_tokens` is the number of chunks of the answer, and its `seed` the pause between two
chunks in milliseconds. It prints its port and exits when its standard input closes.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any

import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return _framed(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_FIRST = _event({"role": "assistant", "content": ""})
_WORD = _event({"content": " word"})
_LAST = _event({}, "stop") + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            request = json.loads(await reader.readexactly(length))
            pause = (request.get("seed") or 0) / 1000
            writer.write(_HEAD + _FIRST)
            for _ in range(request.get("max_tokens") or 1):
                if pause:
                    await asyncio.sleep(pause)
                writer.write(_WORD)
                await writer.drain()
            writer.write(_LAST)
            await writer.drain()
    writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_main())
