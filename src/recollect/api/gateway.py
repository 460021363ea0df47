"""The gateway: handles every request before it reaches its interface.

It finds the interface by the path, authenticates the caller, applies rate limits, limits and checks
the body, replays the response of a repeated request, and turns every exception into an error in the
interface's own format. So no route can forget any of this.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from time import perf_counter
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.api import strict_json
from recollect.api.errors import ErrorReply
from recollect.api.rate_limits import Allowance, Limiter, RequestKind, request_kind
from recollect.api.repeats import StoredResponse, begin_request, end_request
from recollect.core.domain import Caller
from recollect.core.errors import (
    Failure,
    Invalid,
    TooLarge,
    Unauthenticated,
    WrongFormat,
)
from recollect.core.logging import frames
from recollect.core.metrics import Metrics
from recollect.engine import Engine
from recollect.tenancy.keys import KeyCache

MIB = 1024 * 1024
# A key in the request's state. A route sets it if it had to end a response before it was complete.
INCOMPLETE_BODY = "is_broken"

# How long a body may take. For a file: how long it may fall behind the minimum rate.
_BODY_SECONDS = 30.0
_MIN_BYTES_PER_SECOND = 1024
_TOO_SLOW = "The body did not arrive in time."
_WITH_BODY = {"POST", "PUT", "PATCH"}
_REPEATABLE = {"POST", "PUT", "PATCH", "DELETE"}
_KEY_IN_QUERY = re.compile(rb"(?:^|[&;])(?:x-)?(?:api[_-]?key|access_token)=", re.IGNORECASE)
# The longest useful path has fewer than 100 characters. This limit also fits a database index.
_MAX_PATH_CHARACTERS = 500
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface: its paths, its application, and how it reports errors."""

    name: str
    prefixes: tuple[str, ...]
    app: ASGIApp
    error_reply: Callable[[Failure | Exception], ErrorReply]
    credential: Callable[[Headers], str | None]
    max_bytes: int = MIB
    # Authenticates by method and headers, if the interface does not use keys.
    recognise: Callable[[str, Headers], Awaitable[Caller]] | None = None
    # Paths that need no authentication, such as the login page.
    is_open: Callable[[str], bool] = lambda _: False
    # The rate limit, if the one for keys does not suit.
    limiter: Limiter | None = None
    # More paths, if a prefix cannot describe them.
    extra_paths: re.Pattern[str] | None = None
    # Paths that accept files. Their bodies are streamed to the interface, up to a limit.
    uploads: re.Pattern[str] | None = None
    max_upload_bytes: int = 0
    # Paths that accept whole archives.
    imports: re.Pattern[str] | None = None
    max_import_bytes: int = 0
    # Makes the error for an invalid body, if it must contain something from the body (the id of a
    # JSON-RPC request). If it returns None, `error_reply` is used.
    refuse_body: Callable[[bytes, Invalid], ErrorReply | None] = lambda _, __: None
    # Paths whose responses show a secret once. They are not stored for repeated requests.
    secret_paths: re.Pattern[str] | None = None

    def serves(self, path: str) -> bool:
        """Whether this interface serves the path."""
        # The prefix `/` matches only itself, so that `//...` is not served.
        if any(
            path == each or (path.startswith(f"{each}/") and each != "/") for each in self.prefixes
        ):
            return True
        return self.extra_paths is not None and bool(self.extra_paths.match(path))

    def shows_secret(self, path: str) -> bool:
        """Whether the response of this path shows a secret and must not be stored."""
        return self.secret_paths is not None and bool(self.secret_paths.fullmatch(path))

    def max_file_bytes(self, path: str, headers: Headers) -> int:
        """The size limit of a file in this request; 0 if the path accepts no files."""
        if headers.get("content-type", "").startswith("multipart/form-data"):
            if self.uploads and self.uploads.fullmatch(path):
                return self.max_upload_bytes
            if self.imports and self.imports.fullmatch(path):
                return self.max_import_bytes
        return 0


class Gateway:
    """The outermost ASGI application: routes requests to the interfaces, or to `rest`."""

    def __init__(
        self,
        interfaces: list[Interface],
        rest: ASGIApp,
        *,
        engine: Engine,
        key_cache: KeyCache,
        limiter: Limiter,
        metrics: Metrics,
        kind_limiters: Mapping[RequestKind, Limiter] | None = None,
        proxies: Collection[str] = (),
        is_https: bool = False,
    ) -> None:
        self._interfaces = interfaces
        self._rest = rest
        self._engine = engine
        self._key_cache = key_cache
        self._limiter = limiter
        self._kind_limiters = kind_limiters or {}
        self._metrics = metrics
        self._proxies = proxies
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        interface = next((each for each in self._interfaces if each.serves(scope["path"])), None)
        context = _RequestContext(scope, send, proxies=self._proxies, is_https=self._is_https)
        structlog.contextvars.bind_contextvars(request=context.request_id)
        began = perf_counter()
        try:
            if interface:
                await self._serve_interface(interface, context, receive)
            else:
                await self._serve_rest(context, receive)
        finally:
            took = perf_counter() - began
            name = interface.name if interface else "server"
            self._metrics.record_request(name, context.route, scope["method"], context.status, took)
            _log.info(
                "request.answered",
                method=scope["method"],
                route=context.route,
                status=context.status,
                took_ms=round(took * 1000, 1),
            )
            structlog.contextvars.clear_contextvars()

    async def _serve_rest(self, context: "_RequestContext", receive: Receive) -> None:
        try:
            await self._rest(context.scope, receive, context.send)
        except Exception as error:  # noqa: BLE001 - already answered; uvicorn would print it all
            _log.error("request.failed", kind=type(error).__name__, at=frames(error))

    async def _serve_interface(
        self, interface: Interface, context: "_RequestContext", receive: Receive
    ) -> None:
        try:
            await self._handle(interface, context, receive)
        except Failure as failure:
            await context.reply(interface.error_reply(failure))
        except Exception as error:  # noqa: BLE001 - the last handler: a bug needs a response too
            _log.error("request.failed", kind=type(error).__name__, at=frames(error))
            await context.reply(interface.error_reply(error))

    async def _handle(
        self, interface: Interface, context: "_RequestContext", receive: Receive
    ) -> None:
        caller = await self._recognise(interface, context)
        _check_address(context.scope)
        if max_bytes := interface.max_file_bytes(context.scope["path"], context.headers):
            self._charge(context, caller, RequestKind.UPLOAD)
            await _stream_upload(interface, context, caller, receive, max_bytes)
            return
        body, parsed = await _read_body(receive, interface.max_bytes), None
        if body and context.scope["method"] in _WITH_BODY:
            _check_format(context.headers)
            try:
                parsed = strict_json.read(body)
            except Invalid as failure:
                await context.reply(
                    interface.refuse_body(body, failure) or interface.error_reply(failure)
                )
                return
        self._charge(
            context, caller, request_kind(context.scope["method"], context.scope["path"], parsed)
        )
        token = context.headers.get("idempotency-key")
        if caller is None or token is None or context.scope["method"] not in _REPEATABLE:
            await _call_app(interface, context, caller, replay(body, receive), context.send)
        else:
            await self._call_app_once(interface, context, caller, body, receive, token)

    async def _recognise(self, interface: Interface, context: "_RequestContext") -> Caller | None:
        limiter = interface.limiter or self._limiter
        if interface.is_open(context.scope["path"]):
            context.charge(limiter, context.address)
            return None
        try:
            _check_no_key_in(context.scope["query_string"])
            caller = await self._find_caller(interface, context)
        except Unauthenticated:
            context.charge(self._limiter, context.address)
            raise
        context.charge(limiter, caller.key_id or caller.user_id)
        return caller

    def _charge(self, context: "_RequestContext", caller: Caller | None, kind: RequestKind) -> None:
        """Count a request against the limit of its kind, if there is one."""
        if caller and kind in self._kind_limiters:
            context.charge(self._kind_limiters[kind], caller.key_id or caller.user_id)

    async def _find_caller(self, interface: Interface, context: "_RequestContext") -> Caller:
        if interface.recognise:
            return await interface.recognise(context.scope["method"], context.headers)
        credential = interface.credential(context.headers)
        if credential is None and context.headers.get("x-api-key"):
            raise Unauthenticated("Send the key as `Authorization: Bearer`, not as `X-API-Key`.")
        return await self._key_cache.recognise(credential)

    async def _call_app_once(
        self,
        interface: Interface,
        context: "_RequestContext",
        caller: Caller,
        body: bytes,
        receive: Receive,
        token: str,
    ) -> None:
        route = f"{context.scope['method']} {context.scope['path']}"
        # The same body with another query string is another request.
        content = context.scope["query_string"] + body
        begun = await begin_request(self._engine, caller, route=route, token=token, body=content)
        if isinstance(begun, StoredResponse):
            await context.replay(begun)
            return
        copy = _ResponseCopy(context.send)
        response = None
        try:
            await _call_app(interface, context, begun, replay(body, receive), copy.send)
            # A failed request did nothing, so it may be sent again after a correction. The same
            # holds if the response was cut off: half a response must not be replayed.
            if (
                copy.status < 400
                and copy.is_whole
                and not context.scope["state"].get(INCOMPLETE_BODY)
            ):
                response = StoredResponse(copy.status, bytes(copy.body), copy.media_type)
        finally:
            # Store the response even if the client has disconnected: that client will retry.
            is_secret = interface.shows_secret(context.scope["path"])
            await asyncio.shield(end_request(self._engine, begun, response, is_secret=is_secret))


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body already read, then later messages such as a disconnect."""
    is_sent = False

    async def receive_again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _call_app(
    interface: Interface,
    context: "_RequestContext",
    caller: Caller | None,
    receive: Receive,
    send: Send,
) -> None:
    known = {"caller": caller, "address": context.address}
    context.scope["state"] = {**context.scope.get("state", {}), **known}
    await interface.app(context.scope, receive, send)


async def _stream_upload(
    interface: Interface,
    context: "_RequestContext",
    caller: Caller | None,
    receive: Receive,
    max_bytes: int,
) -> None:
    """Stream a body to the interface. Cut it off and refuse it if it is too large or too slow."""
    bounded = _BoundedBody(receive, context.send, max_bytes)
    try:
        await _call_app(interface, context, caller, bounded.receive, bounded.send)
    except Exception:
        if not bounded.is_cut:
            raise
    if bounded.is_too_large:
        raise TooLarge("body", limit=max_bytes, unit="bytes")
    if bounded.is_too_slow:
        raise Invalid(_TOO_SLOW)


class _BoundedBody:
    """Passes a body on and measures it. Beyond a limit it reports a disconnect to the interface."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._size = 0
        # How long to wait for the next part. Waiting reduces it; received bytes increase it.
        self._seconds: float | None = _BODY_SECONDS
        self.is_too_large = False
        self.is_too_slow = False

    @property
    def is_cut(self) -> bool:
        return self.is_too_large or self.is_too_slow

    async def receive(self) -> Message:
        began = perf_counter()
        try:
            async with asyncio.timeout(self._seconds):
                message = await self._receive()
        except TimeoutError:
            self.is_too_slow = True
            return {"type": "http.disconnect"}
        size = len(message.get("body", b""))
        self._size += size
        if self._size > self._max_bytes:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        if not message.get("more_body"):
            self._seconds = None
        elif self._seconds is not None:
            earned = size / _MIN_BYTES_PER_SECOND - (perf_counter() - began)
            self._seconds = min(_BODY_SECONDS, self._seconds + earned)
        return message

    async def send(self, message: Message) -> None:
        if not self.is_cut:
            await self._send(message)


class _RequestContext:
    """One request: its address and id, its rate limit, and the state of its response."""

    def __init__(
        self, scope: Scope, send: Send, *, proxies: Collection[str], is_https: bool
    ) -> None:
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.address = _address(scope, self.headers, proxies)
        self._is_https = is_https
        self.allowance: Allowance | None = None
        self.status = 0
        self._send = send
        given = self.headers.get("x-request-id", "")
        self.request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex

    @property
    def route(self) -> str:
        """The route's template. Paths contain ids, which must not appear in logs and metrics."""
        return str(getattr(self.scope.get("route"), "path", "unrouted"))

    def charge(self, limiter: Limiter, holder: object) -> None:
        """Count this request against a limit. Raises `RateLimited` if the limit is reached.

        If there are several limits, the headers show the one with the fewest requests left.
        """
        self._show_allowance(limiter.peek(holder))
        self._show_allowance(limiter.take(holder))

    def _show_allowance(self, allowance: Allowance | None) -> None:
        known = self.allowance
        if known is None or (allowance and allowance.remaining <= known.remaining):
            self.allowance = allowance

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])  # may be an enum
            self._add_headers(MutableHeaders(scope=message))
        await self._send(message)

    async def reply(self, reply: ErrorReply) -> None:
        if self.status:
            return  # a response has already begun; a second one would corrupt it
        text = json.dumps(reply.body) if reply.page is None else reply.page
        media_type = "application/json" if reply.page is None else "text/html; charset=utf-8"
        headers = {"content-type": media_type, **reply.headers}
        await self._send_response(reply.status, headers, text.encode())

    async def replay(self, response: StoredResponse) -> None:
        headers = {"idempotent-replayed": "true"}
        if response.media_type:
            headers["content-type"] = response.media_type
        await self._send_response(response.status, headers, response.body)

    async def _send_response(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status != 204:
            headers = {**headers, "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})

    def _add_headers(self, headers: MutableHeaders) -> None:
        headers["x-request-id"] = self.request_id
        headers["x-content-type-options"] = "nosniff"
        headers["referrer-policy"] = "no-referrer"
        if self._is_https:
            headers["strict-transport-security"] = "max-age=31536000"
        headers.setdefault("cache-control", "no-store")
        if self.allowance:
            headers["x-ratelimit-limit"] = str(self.allowance.limit)
            headers["x-ratelimit-remaining"] = str(self.allowance.remaining)
            headers["x-ratelimit-reset"] = str(self.allowance.reset)


class _ResponseCopy:
    """Passes a response on and keeps a copy."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500
        self.body = bytearray()
        self.is_whole = False
        self.media_type: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.media_type = Headers(raw=message.get("headers", [])).get("content-type")
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            self.is_whole = not message.get("more_body", False)
        await self._send(message)


async def _read_body(receive: Receive, max_bytes: int) -> bytes:
    """The whole body, measured as it arrives; `Content-Length` is not trusted."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("The request ended before its body was complete.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > max_bytes:
                    raise TooLarge("body", limit=max_bytes, unit="bytes")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Invalid(_TOO_SLOW) from None


def _address(scope: Scope, headers: Headers, proxies: Collection[str]) -> str | None:
    """The client's address. `X-Forwarded-For` counts only if it comes from a trusted proxy.

    The last address in the header is the one the proxy saw. Clients can forge those before it.
    """
    client = scope.get("client")
    address = client[0] if client else None
    if address not in proxies:
        return address
    forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return forwarded or address


def _check_no_key_in(query_string: bytes) -> None:
    if _KEY_IN_QUERY.search(query_string):
        # In the URL, the key would appear in every log between here and the client.
        raise Unauthenticated("Send the key in a header, not in the URL.")


def _check_address(scope: Scope) -> None:
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Invalid("The URL contains a NUL character.")
    if len(scope["path"]) > _MAX_PATH_CHARACTERS:
        raise Invalid(f"The path is longer than {_MAX_PATH_CHARACTERS} characters.")


def _check_format(headers: Headers) -> None:
    media_type = headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise WrongFormat("The body must be `application/json`.")


def bearer(headers: Headers) -> str | None:
    """The key of an `Authorization: Bearer` header."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def key_or_bearer(headers: Headers) -> str | None:
    """The key of an `X-API-Key` header, or else of `Authorization`."""
    return headers.get("x-api-key") or bearer(headers)
