"""Connections: how many may be open, and how long a client may take to send a request's header.

uvicorn bounds neither the header of a request nor the time until it is complete, and it accepts
connections until the process has no file descriptor left. `Connection` is uvicorn's own protocol
with these bounds, `Connections` counts what is open.

When there is no room, a new connection replaces the one that has waited longest for a header. If
no connection waits, the new one may ask for `/health` only.
"""

import resource
from asyncio import TimerHandle, Transport, get_running_loop
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, ClassVar

import structlog
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from recollect.core.metrics import Metrics
from recollect.core.settings import Settings

# For the request line and the header fields together, and for trailers and a chunk's extensions.
MAX_HEADER_BYTES = 16 * 1024
# Counted from the first byte of a header; on a new connection from the moment it is accepted.
_HEADER_SECONDS = 15.0
# How long an idle connection stays open after a response.
KEEP_ALIVE_SECONDS = 5
# Requests that wait for the response to an earlier one on their connection. Each takes 9 kB.
# Browsers and HTTP libraries send none.
_MAX_PIPELINED = 16
# How long a refused connection stays open. Closing it with unread bytes would reset it, and the
# client could lose the response.
_LINGER_SECONDS = 1.0

_MAX_CONNECTIONS = 4_096
# Connections beyond the limit, which may ask for `/health` only.
_RESERVE = 32
# Descriptors for files, pipes and the event loop. A server without clients has 20 open in all.
_OTHER_FILES = 64
# The part of all connections that one address may have.
_MAX_SHARE = 0.75

# How often refusals are logged.
_LOG_SECONDS = 60.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections may be open and how long each may wait for a header."""

    total: int
    per_address: int
    reserve: int = _RESERVE
    header_seconds: float = _HEADER_SECONDS
    # Addresses that are not limited: proxies carry the requests of many clients.
    proxies: frozenset[str] = frozenset()


def limits_of(settings: Settings) -> Limits:
    """The limits that fit the number of files this process may open.

    Half of the files are left for connections to models: a request may open one.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = (files - _OTHER_FILES - settings.pool_size) // 2
    is_unlimited = files == resource.RLIM_INFINITY
    total = _MAX_CONNECTIONS if is_unlimited else min(_MAX_CONNECTIONS, half - _RESERVE)
    total = max(total, _RESERVE)
    per_address = min(settings.connections_per_address or total, int(total * _MAX_SHARE))
    return Limits(total, per_address, proxies=settings.trusted_proxies)


class Connections:
    """The connections that are open, and those among them that wait for a header."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self._metrics = metrics
        self._open: dict[Connection, Hashable] = {}
        self._of_address: Counter[Hashable] = Counter()
        # In the order in which they began to wait.
        self._waiting: dict[Connection, None] = {}
        self._not_logged: Counter[str] = Counter()
        self._log_timer: TimerHandle | None = None

    @property
    def protocol(self) -> type["Connection"]:
        """The protocol to give to uvicorn."""

        class Counted(Connection):
            group = self

        return Counted

    def count(self) -> dict[str, int]:
        """How many are open and how many of these wait for a header."""
        return {"open": len(self._open), "waiting": len(self._waiting)}

    def add(self, connection: "Connection") -> None:
        """Count a new connection; close it or restrict it when there is no room."""
        address = self._address(connection)
        if self._has_enough(address):
            self._close_oldest(address)
        if len(self._open) >= self.limits.total:
            self._close_oldest()
        if len(self._open) >= self.limits.total + self.limits.reserve:
            self.refused("no_room")
            connection.transport.abort()
            return
        connection.is_restricted = self._has_enough(address) or len(self._open) >= self.limits.total
        self._open[connection] = address
        self._of_address[address] += 1
        self._waiting[connection] = None

    def remove(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            address = self._open.pop(connection)
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def begin_wait(self, connection: "Connection") -> None:
        """Record that a connection waits for its next header."""
        if connection in self._open:
            self._waiting[connection] = None

    def end_wait(self, connection: "Connection") -> None:
        """Record that a connection has received a header."""
        self._waiting.pop(connection, None)

    def refused(self, reason: str) -> None:
        """Count a refusal. The first is logged at once, the next ones once a minute."""
        self._metrics.count_refusal(reason)
        self._not_logged[reason] += 1
        if self._log_timer is None:
            self._write_log()

    def _write_log(self) -> None:
        self._log_timer = None
        if self._not_logged:
            for reason, count in self._not_logged.items():
                _log.warning("connection.refused", reason=reason, count=count)
            self._not_logged.clear()
            self._log_timer = get_running_loop().call_later(_LOG_SECONDS, self._write_log)

    def _has_enough(self, address: Hashable) -> bool:
        return address is not None and self._of_address[address] >= self.limits.per_address

    def _close_oldest(self, address: Hashable = None) -> None:
        """Close the connection that has waited longest for a header, of one address or of all."""
        for each in self._waiting:
            if address is None or self._open[each] == address:
                self.remove(each)
                self.refused("displaced")
                each.transport.abort()
                return

    def _address(self, connection: "Connection") -> Hashable:
        """The address that a connection counts for; None for a proxy and for a Unix socket."""
        host = connection.client[0] if connection.client else None
        if host is None or host in self.limits.proxies:
            return None
        if ":" not in host:
            return host
        address = IPv6Address(host.partition("%")[0])
        # One client of IPv6 usually has a network of 2**64 addresses.
        return str(address.ipv4_mapped) if address.ipv4_mapped else int(address) >> 64


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP connection with a limit on headers, in bytes and in time."""

    group: ClassVar[Connections]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Whether this connection may ask for `/health` only.
        self.is_restricted = False
        self._timer: TimerHandle | None = None
        # Bytes since the parser last completed a header or found a part of a body.
        self._header_bytes = 0
        self._has_parsed = False
        self._is_refused = False

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Find room for this connection and begin to wait for a header."""
        super().connection_made(transport)
        self.group.add(self)
        if self.is_restricted:
            self.app = self._answer_health
        if not transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting this connection."""
        self.group.remove(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse in pieces, so that no header grows beyond its limit within one read.

        The limit is exact for a header that begins a piece. A header that begins within a piece,
        after another request, may have up to twice as many bytes.
        """
        start = 0
        while start < len(data) and not self._is_refused and not self.transport.is_closing():
            piece = data[start : start + MAX_HEADER_BYTES - self._header_bytes]
            start += len(piece)
            self._has_parsed = False
            super().data_received(piece)
            self._header_bytes = 0 if self._has_parsed else self._header_bytes + len(piece)
            if self._header_bytes >= MAX_HEADER_BYTES:
                self._refuse(431, "header_too_large", "The header is larger than 16 KiB.")
        if self._timer is None and not self._is_answering:
            self._start_timer()

    def on_headers_complete(self) -> None:
        """Stop the timer and start the response."""
        if len(self.pipeline) >= _MAX_PIPELINED:
            self.group.refused("pipelined")
            raise ValueError("Too many requests wait on one connection.")
        self._has_parsed = True
        self._stop_timer()
        self.group.end_wait(self)
        super().on_headers_complete()
        if self.is_restricted:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body on."""
        self._has_parsed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._has_parsed = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        if not self._is_answering:
            self.group.begin_wait(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP."""
        if self._is_answering:
            self.transport.abort()  # a second response would corrupt the first
        else:
            super().send_400_response(msg)

    async def _answer_health(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/health" or path.startswith("/health/"):
            await self.config.loaded_app(scope, receive, send)
        else:
            self.group.refused("too_many")
            await service_unavailable(scope, receive, send)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.group.limits.header_seconds, self._end_wait)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _end_wait(self) -> None:
        if self._header_bytes:
            self._refuse(408, "header_too_late", "The header did not arrive in time.")
        else:
            self.transport.close()  # no request has begun

    def _refuse(self, status: int, reason: str, text: str) -> None:
        self.group.refused(reason)
        self._stop_timer()
        if self._is_answering:
            self.transport.abort()
            return
        self._is_refused = True
        head = (
            f"content-type: text/plain\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + (head + text).encode())
        self.flow.pause_reading()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)
