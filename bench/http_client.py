"""A minimal HTTP/1.1 client with keep-alive, with as little work per request as possible."""

import asyncio
import json
from typing import Any, cast

import httptools

_TIMEOUT_SECONDS = 60.0


class HttpConnection(asyncio.Protocol):
    """One connection; each request waits for the response to the previous one."""

    # Some interfaces use another header for the key.
    is_bearer = False

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._body = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def send(
        self, method: str, path: str, *, key: str = "", body: object = None
    ) -> tuple[int, bytes]:
        """Return status and body of the response; raise `ConnectionError` if the server closes."""
        assert self._transport
        sent = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self._credential(key)}"
            f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        )
        self._parser = cast("Any", httptools.HttpResponseParser(self))
        self._body.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + sent)
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await self._answer

    def _credential(self, key: str) -> str:
        """Return the header with the key, or with a bearer token."""
        return f"Authorization: Bearer {key}\r\n" if self.is_bearer else f"X-API-Key: {key}\r\n"

    @property
    def is_closed(self) -> bool:
        """Return whether the server has closed the connection (after five idle seconds)."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection."""
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("The server hung up."))

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body += body

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._answer and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), bytes(self._body)))


async def open_connection(port: int) -> HttpConnection:
    """Open a connection to a server on this machine."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(HttpConnection, "127.0.0.1", port)
    return connection
