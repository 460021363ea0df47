"""What a request says of its memory, and what passes between client and upstream."""

import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.datastructures import Headers

from recollect.engine.inject import Remembered, State
from recollect.engine.kinds import INSTRUCTIONS
from recollect.engine.turn import Ask, Begun, Mode
from recollect.errors import Invalid

Object = dict[str, Any]

_PREFIX = "x-recollect-"
_LABEL = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
# Whatever else a client sends stays here: cookies, forwarding headers and our own above all.
_UPWARD = {"traceparent", "tracestate", "idempotency-key"}
_UPWARD_PREFIXES = ("openai-", "x-stainless-")
_DOWNWARD = {"retry-after", "retry-after-ms", "openai-processing-ms", "openai-model"}
_MOST_IDS = 20
_CHAT = "chat"


def ask_of(headers: Headers, raw: bytes, body: Object) -> Ask:
    """The turn a request asks for: its memory mode, thread, user and agent, and the rest of it.

    Each may stand in a header or, by the same name, in `metadata`, from where it goes no further.
    """
    metadata = body.get("metadata")
    told = cast("Object", metadata) if isinstance(metadata, dict) else {}
    ours = {name.lower(): value for name, value in told.items() if _is_ours(name)}

    def value(name: str) -> str | None:
        found = _read(headers.get(_PREFIX + name)) or ours.get(_PREFIX + name)
        if found is None:
            return None
        return _label(found, f"X-Recollect-{name.title()}", name)

    if ours:
        rest = {name: each for name, each in told.items() if not _is_ours(name)}
        body = {name: each for name, each in body.items() if name != "metadata"}
        body = {**body, "metadata": rest} if rest else body
        raw = b""
    mode = _mode(value("memory"))
    return Ask(
        raw=raw,
        body=body,
        mode=mode,
        thread=value("thread"),
        subject=value("user") or (None if mode is Mode.OFF else _user(body)),
        agent=value("agent"),
        kind=_kind(value("kind")),
        headers=_upward(headers),
    )


def _user(body: Object) -> str | None:
    """Whose turn the body says it is; nobody's and everybody's is only what names none."""
    user = body.get("user")
    return None if user is None or user == "" else _label(user, "user", "user")


def _label(value: Any, name: str, field: str) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise Invalid(f"`{name}` must be a text of 1 to 255 characters on one line.", field=field)
    return value


def _read(header: str | None) -> str | None:
    """A header as it was meant: clients write names in UTF-8, which arrives as Latin-1."""
    if header is None:
        return None
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header


def downward(begun: Begun) -> dict[str, str]:
    """The headers a client gets: a few of the upstream's, and what memory had to do."""
    found = {
        name.lower(): value
        for name, value in begun.headers.items()
        if name.lower() in _DOWNWARD or name.lower().startswith("x-ratelimit-")
    }
    if "x-request-id" in begun.headers:
        found["x-upstream-request-id"] = begun.headers["x-request-id"]
    return {**found, **_memory(begun.remembered)}


def _memory(remembered: Remembered) -> dict[str, str]:
    shown = {"x-recollect-memory": str(remembered.state)}
    if remembered.state is not State.OFF:
        shown["x-recollect-memory-ms"] = str(remembered.took_ms)
    if remembered.codes:
        ids = [f"mem_{code}" for code in remembered.codes[:_MOST_IDS]]
        shown["x-recollect-memory-ids"] = ",".join(ids)
    return shown


def _is_ours(name: str) -> bool:
    return name.lower().startswith(_PREFIX)


def _mode(text: str | None) -> Mode:
    try:
        return Mode((text or "on").lower())
    except ValueError:
        raise Invalid(
            "`X-Recollect-Memory` must be on, read, write or off.", field="memory"
        ) from None


def _kind(text: str | None) -> str:
    found = (text or _CHAT).lower()
    if found != _CHAT and found not in INSTRUCTIONS:
        names = ", ".join([_CHAT, *INSTRUCTIONS])
        raise Invalid(f"`X-Recollect-Kind` must be one of {names}.", field="kind")
    return found


def _upward(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() in _UPWARD or name.lower().startswith(_UPWARD_PREFIXES)
    }
