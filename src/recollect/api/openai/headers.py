"""Read memory options from a request, and filter the headers between client and upstream."""

import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.datastructures import Headers

from recollect.chat.injection import InjectedMemories, InjectionState
from recollect.chat.turn_request import MemoryMode, TurnRequest
from recollect.chat.turn_sink import StartedTurn
from recollect.core.errors import Invalid
from recollect.core.turn_kinds import INSTRUCTIONS

Object = dict[str, Any]

_PREFIX = "x-recollect-"
_LABEL = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
# No other header goes upstream; above all no cookies, no forwarding headers and none of ours.
_REQUEST_HEADERS = {"traceparent", "tracestate", "idempotency-key"}
_REQUEST_PREFIXES = ("openai-", "x-stainless-")
_RESPONSE_HEADERS = {"retry-after", "retry-after-ms", "openai-processing-ms", "openai-model"}
_MAX_IDS = 20
_CHAT = "chat"


def to_turn_request(headers: Headers, raw: bytes, body: Object) -> TurnRequest:
    """Build the turn request, with its memory mode, thread, user, agent and kind.

    Each of these options may be a header or a `metadata` field of the same name. Such a field is
    not sent upstream.
    """
    found = body.get("metadata")
    metadata = cast("Object", found) if isinstance(found, dict) else {}
    options = {name.lower(): each for name, each in metadata.items() if _is_option(name)}

    def value(name: str) -> str | None:
        text = _decode(headers.get(_PREFIX + name)) or options.get(_PREFIX + name)
        if text is None:
            return None
        return _check_label(text, f"X-Recollect-{name.title()}", name)

    if options:
        rest = {name: each for name, each in metadata.items() if not _is_option(name)}
        body = {name: each for name, each in body.items() if name != "metadata"}
        body = {**body, "metadata": rest} if rest else body
        raw = b""
    mode = _mode(value("memory"))
    return TurnRequest(
        raw=raw,
        body=body,
        mode=mode,
        thread=value("thread"),
        subject=value("user") or (None if mode is MemoryMode.OFF else _user(body)),
        agent=value("agent"),
        kind=_kind(value("kind")),
        headers=_upstream_headers(headers),
    )


def _user(body: Object) -> str | None:
    """Return the `user` of the body; None if it is absent or empty."""
    user = body.get("user")
    return None if user is None or user == "" else _check_label(user, "user", "user")


def _check_label(value: Any, name: str, field: str) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise Invalid(f"`{name}` must be one line of 1 to 255 characters.", field=field)
    return value


def _decode(header: str | None) -> str | None:
    """Decode a header: clients send UTF-8, but the server reads Latin-1."""
    if header is None:
        return None
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header


def client_headers(started: StartedTurn) -> dict[str, str]:
    """Return the response headers: a few of the upstream's, and those about memory."""
    found = {
        name.lower(): value
        for name, value in started.headers.items()
        if name.lower() in _RESPONSE_HEADERS or name.lower().startswith("x-ratelimit-")
    }
    if "x-request-id" in started.headers:
        found["x-upstream-request-id"] = started.headers["x-request-id"]
    return {**found, **_memory_headers(started.injected)}


def _memory_headers(injected: InjectedMemories) -> dict[str, str]:
    headers = {"x-recollect-memory": str(injected.state)}
    if injected.state is not InjectionState.OFF:
        headers["x-recollect-memory-ms"] = str(injected.took_ms)
    if injected.codes:
        ids = [f"mem_{code}" for code in injected.codes[:_MAX_IDS]]
        headers["x-recollect-memory-ids"] = ",".join(ids)
    return headers


def _is_option(name: str) -> bool:
    return name.lower().startswith(_PREFIX)


def _mode(text: str | None) -> MemoryMode:
    try:
        return MemoryMode((text or "on").lower())
    except ValueError:
        raise Invalid(
            "`X-Recollect-Memory` must be `on`, `read`, `write` or `off`.", field="memory"
        ) from None


def _kind(text: str | None) -> str:
    found = (text or _CHAT).lower()
    if found != _CHAT and found not in INSTRUCTIONS:
        names = ", ".join([_CHAT, *INSTRUCTIONS])
        raise Invalid(f"`X-Recollect-Kind` must be one of {names}.", field="kind")
    return found


def _upstream_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() in _REQUEST_HEADERS or name.lower().startswith(_REQUEST_PREFIXES)
    }
