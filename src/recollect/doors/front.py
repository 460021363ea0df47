"""The front desk: what every request passes before it reaches its door.

It finds the door by the path, recognises the caller, counts, bounds and checks the body, answers a
repeated request, and turns whatever is raised into an answer in that door's own envelope. A route
behind it cannot forget any of this.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.domain import Caller
from recollect.doors import strict_json
from recollect.doors.limits import Allowance, Limiter, Sort, sort_of
from recollect.engine.core import Engine
from recollect.engine.keys import KeyRing
from recollect.engine.once import Answer, begin_once, end_once
from recollect.errors import Failure, Invalid, RateLimited, TooLarge, Unauthenticated, WrongFormat
from recollect.logs import frames
from recollect.measure import Measures

MIB = 1024 * 1024
# Noted in a request's state by whoever had to end an answer before it was complete.
BROKEN = "is_broken"

# A body that trickles in slower than this is somebody holding our door open.
_BODY_SECONDS = 30.0
_WITH_BODY = {"POST", "PUT", "PATCH"}
_REPEATABLE = {"POST", "PUT", "PATCH", "DELETE"}
_KEY_IN_QUERY = re.compile(rb"(?:^|[&;])(?:x-)?(?:api[_-]?key|access_token)=", re.IGNORECASE)
# The longest address anybody has a use for is below 100 characters; this one fits an index.
_LONGEST_PATH = 500
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in a door's envelope."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    # Instead of the body: HTML.
    page: str | None = None


@dataclass(frozen=True, slots=True)
class Door:
    """One interface: where it is, what serves it, and how it says that something went wrong."""

    name: str
    prefixes: tuple[str, ...]
    app: ASGIApp
    answer: Callable[[Failure | Exception], Reply]
    credential: Callable[[Headers], str | None]
    most_bytes: int = MIB
    # How it knows its callers, where that is not by a key: by the method and headers of a request.
    recognise: Callable[[str, Headers], Awaitable[Caller]] | None = None
    # Addresses that are served to whoever comes, such as those where one signs in.
    is_open: Callable[[str], bool] = lambda _: False
    # Its own limit, where a key's does not fit.
    limiter: Limiter | None = None
    # Further addresses, where a prefix cannot say it.
    also: re.Pattern[str] | None = None
    # Addresses to which files are sent: their bodies go to the door as they come, up to a bound.
    uploads: re.Pattern[str] | None = None
    most_upload_bytes: int = 0
    # And those to which whole archives are sent.
    imports: re.Pattern[str] | None = None
    most_import_bytes: int = 0
    # How it refuses a body that was read but cannot be kept, where that must say which request it
    # was; None leaves it to `answer`.
    refuse: Callable[[bytes, Invalid], Reply | None] = lambda _, __: None
    # Addresses whose answers tell a secret once: no copy of them is kept for a repeat.
    secrets: re.Pattern[str] | None = None

    def serves(self, path: str) -> bool:
        """Whether the path lies behind this door."""
        # The page stands at `/` alone: what begins with two is nowhere.
        if any(
            path == each or (path.startswith(f"{each}/") and each != "/") for each in self.prefixes
        ):
            return True
        return self.also is not None and bool(self.also.match(path))

    def tells_secret(self, path: str) -> bool:
        """Whether an answer from there is to be seen once and never again."""
        return self.secrets is not None and bool(self.secrets.fullmatch(path))

    def room_for_file(self, path: str, headers: Headers) -> int:
        """How large a file this request may bring; 0 unless files are taken there."""
        if headers.get("content-type", "").startswith("multipart/form-data"):
            if self.uploads and self.uploads.fullmatch(path):
                return self.most_upload_bytes
            if self.imports and self.imports.fullmatch(path):
                return self.most_import_bytes
        return 0


class Front:
    """The outermost ASGI application: doors by prefix, and the rest of the house behind them."""

    def __init__(
        self,
        doors: list[Door],
        rest: ASGIApp,
        *,
        engine: Engine,
        ring: KeyRing,
        limiter: Limiter,
        measures: Measures,
        sorts: Mapping[Sort, Limiter] | None = None,
        proxies: Collection[str] = (),
        is_https: bool = False,
    ) -> None:
        self._doors = doors
        self._rest = rest
        self._engine = engine
        self._ring = ring
        self._limiter = limiter
        self._sorts = sorts or {}
        self._measures = measures
        self._proxies = proxies
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        door = next((each for each in self._doors if each.serves(scope["path"])), None)
        visit = _Visit(scope, send, proxies=self._proxies, is_https=self._is_https)
        structlog.contextvars.bind_contextvars(request=visit.request_id)
        began = perf_counter()
        try:
            if door:
                await self._admit(door, visit, receive)
            else:
                await self._show_around(visit, receive)
        finally:
            took = perf_counter() - began
            name = door.name if door else "house"
            self._measures.request(name, visit.route, scope["method"], visit.status, took)
            _log.info(
                "request.answered",
                method=scope["method"],
                route=visit.route,
                status=visit.status,
                took_ms=round(took * 1000, 1),
            )
            structlog.contextvars.clear_contextvars()

    async def _show_around(self, visit: "_Visit", receive: Receive) -> None:
        try:
            await self._rest(visit.scope, receive, visit.send)
        except Exception as error:  # noqa: BLE001 - answered there; the server would print it all
            _log.error("request.failed", kind=type(error).__name__, at=frames(error))

    async def _admit(self, door: Door, visit: "_Visit", receive: Receive) -> None:
        try:
            await self._pass(door, visit, receive)
        except Failure as failure:
            await visit.reply(door.answer(failure))
        except Exception as error:  # noqa: BLE001 - the last handler: a bug must have an answer too
            _log.error("request.failed", kind=type(error).__name__, at=frames(error))
            await visit.reply(door.answer(error))

    async def _pass(self, door: Door, visit: "_Visit", receive: Receive) -> None:
        caller = await self._recognise(door, visit)
        _check_address(visit.scope)
        if room := door.room_for_file(visit.scope["path"], visit.headers):
            self._charge(visit, caller, Sort.UPLOAD)
            await _take_file(door, visit, caller, receive, room)
            return
        body, told = await _body(receive, door.most_bytes), None
        if body and visit.scope["method"] in _WITH_BODY:
            _check_format(visit.headers)
            try:
                told = strict_json.read(body)
            except Invalid as failure:
                await visit.reply(door.refuse(body, failure) or door.answer(failure))
                return
        self._charge(visit, caller, sort_of(visit.scope["method"], visit.scope["path"], told))
        token = visit.headers.get("idempotency-key")
        if caller is None or token is None or visit.scope["method"] not in _REPEATABLE:
            await _enter(door, visit, caller, replay(body, receive), visit.send)
        else:
            await self._enter_once(door, visit, caller, body, receive, token)

    async def _recognise(self, door: Door, visit: "_Visit") -> Caller | None:
        limiter = door.limiter or self._limiter
        if door.is_open(visit.scope["path"]):
            visit.charge(limiter, visit.address)
            return None
        try:
            _check_no_key_in(visit.scope["query_string"])
            caller = await self._look_at(door, visit)
        except Unauthenticated:
            visit.charge(self._limiter, visit.address)
            raise
        visit.charge(limiter, caller.key_id or caller.user_id)
        return caller

    def _charge(self, visit: "_Visit", caller: Caller | None, sort: Sort) -> None:
        """Count a request against the limit of its sort, where there is one."""
        if caller and sort in self._sorts:
            visit.charge(self._sorts[sort], caller.key_id or caller.user_id)

    async def _look_at(self, door: Door, visit: "_Visit") -> Caller:
        if door.recognise:
            return await door.recognise(visit.scope["method"], visit.headers)
        credential = door.credential(visit.headers)
        if credential is None and visit.headers.get("x-api-key"):
            raise Unauthenticated("Here the key travels as `Authorization: Bearer`.")
        return await self._ring.recognise(credential)

    async def _enter_once(
        self,
        door: Door,
        visit: "_Visit",
        caller: Caller,
        body: bytes,
        receive: Receive,
        token: str,
    ) -> None:
        route = f"{visit.scope['method']} {visit.scope['path']}"
        # What is asked in the address makes another request of the same body.
        asked = visit.scope["query_string"] + body
        begun = await begin_once(self._engine, caller, route=route, token=token, body=asked)
        if isinstance(begun, Answer):
            await visit.replay(begun)
            return
        copy = _Copy(visit.send)
        answer = None
        try:
            await _enter(door, visit, begun, replay(body, receive), copy.send)
            # A request that failed did nothing: mended, it shall have its chance. So shall one
            # whose stream broke off: half an answer is none to repeat.
            if copy.status < 400 and copy.is_whole and not visit.scope["state"].get(BROKEN):
                answer = Answer(copy.status, bytes(copy.body), copy.media_type)
        finally:
            # Kept even when the client has gone: it is the one who will ask again.
            is_secret = door.tells_secret(visit.scope["path"])
            await asyncio.shield(end_once(self._engine, begun, answer, is_secret=is_secret))


def replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, in one piece; after it whatever else comes, such as a goodbye."""
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _enter(
    door: Door, visit: "_Visit", caller: Caller | None, receive: Receive, send: Send
) -> None:
    known = {"caller": caller, "address": visit.address}
    visit.scope["state"] = {**visit.scope.get("state", {}), **known}
    await door.app(visit.scope, receive, send)


async def _take_file(
    door: Door, visit: "_Visit", caller: Caller | None, receive: Receive, most: int
) -> None:
    """Pass a body on as it arrives; one that grows too long is cut off and refused."""
    bounded = _Bounded(receive, visit.send, most)
    try:
        await _enter(door, visit, caller, bounded.receive, bounded.send)
    except Exception:
        if not bounded.is_too_large:
            raise
    if bounded.is_too_large:
        raise TooLarge("body", most=most, unit="bytes")


class _Bounded:
    """Passes a body on, counting; beyond the bound the door hears that its sender has gone."""

    def __init__(self, receive: Receive, send: Send, most: int) -> None:
        self._receive = receive
        self._send = send
        self._most = most
        self._size = 0
        self.is_too_large = False

    async def receive(self) -> Message:
        async with asyncio.timeout(_BODY_SECONDS):
            message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > self._most:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        if not self.is_too_large:
            await self._send(message)


class _Visit:
    """One request on its way: what was sent back so far, and what every answer carries."""

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
        """The route's template: paths hold ids, which belong in no log and no metric."""
        return str(getattr(self.scope.get("route"), "path", "unrouted"))

    def charge(self, limiter: Limiter, holder: object) -> None:
        """Count this request against a limit; raise `RateLimited` when there is none left.

        Of several limits the headers tell the one that is nearest.
        """
        self._tell(limiter.look(holder))
        self._tell(limiter.take(holder))

    def _tell(self, allowance: Allowance | None) -> None:
        known = self.allowance
        if known is None or (allowance and allowance.remaining <= known.remaining):
            self.allowance = allowance

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])  # some hand in an enum
            self._stamp(MutableHeaders(scope=message))
        await self._send(message)

    async def reply(self, reply: Reply) -> None:
        if self.status:
            return  # the answer has begun; a second one would only garble it
        text = json.dumps(reply.body) if reply.page is None else reply.page
        media_type = "application/json" if reply.page is None else "text/html; charset=utf-8"
        headers = {"content-type": media_type, **reply.headers}
        await self._answer(reply.status, headers, text.encode())

    async def replay(self, answer: Answer) -> None:
        headers = {"idempotent-replayed": "true"}
        if answer.media_type:
            headers["content-type"] = answer.media_type
        await self._answer(answer.status, headers, answer.body)

    async def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status != 204:
            headers = {**headers, "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})

    def _stamp(self, headers: MutableHeaders) -> None:
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


class _Copy:
    """Passes an answer on and keeps it."""

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


async def _body(receive: Receive, most: int) -> bytes:
    """The whole body, counted as it arrives: its own word for its length is not trusted."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("The request ended before its body did.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise TooLarge("body", most=most, unit="bytes")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Invalid("The body did not arrive in time.") from None


def _address(scope: Scope, headers: Headers, proxies: Collection[str]) -> str | None:
    """Where a request comes from. Only a proxy of the operator's is believed that it is another's.

    The last address in its header is the one the proxy saw; those before it anybody can write.
    """
    client = scope.get("client")
    address = client[0] if client else None
    if address not in proxies:
        return address
    told = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return told or address


def _check_no_key_in(query_string: bytes) -> None:
    if _KEY_IN_QUERY.search(query_string):
        # It would stand in every log between here and the client.
        raise Unauthenticated("A key belongs in a header, not in the address.")


def _check_address(scope: Scope) -> None:
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Invalid("The address holds a NUL character.")
    if len(scope["path"]) > _LONGEST_PATH:
        raise Invalid(f"The address is longer than {_LONGEST_PATH} characters.")


def _check_format(headers: Headers) -> None:
    media_type = headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise WrongFormat("The body must be `application/json`.")


def retry_after(failure: RateLimited) -> str:
    """The value of a `Retry-After` header: whole seconds, never zero."""
    return str(max(1, int(failure.retry_after.total_seconds())))


def bearer(headers: Headers) -> str | None:
    """The key of an `Authorization: Bearer` header."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def key_or_bearer(headers: Headers) -> str | None:
    """The key of an `X-API-Key` header, or else of `Authorization`."""
    return headers.get("x-api-key") or bearer(headers)
