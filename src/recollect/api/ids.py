"""Parse ids from clients. Each interface writes its own form of an id and accepts all others.

A text that cannot be an id raises `NotFound`, like an unknown id.
"""

from uuid import UUID

from recollect.core.domain import (
    DOCUMENT_PREFIXES,
    FILE_PREFIXES,
    MEMORY_PREFIXES,
    MESSAGE_PREFIXES,
    THREAD_PREFIXES,
    TURN_PREFIXES,
    Ref,
    parse_ref,
)
from recollect.core.errors import NotFound
from recollect.tenancy.thread_lookup import ThreadName


def memory(text: str) -> Ref:
    """A memory by any form of its id."""
    return _ref(text, "memory", MEMORY_PREFIXES)


def session(text: str) -> Ref:
    """A thread by any form of its id, for interfaces that call it a session."""
    return _ref(text, "session", THREAD_PREFIXES)


def chat(text: str) -> Ref:
    """A thread by any form of its id, for interfaces that call it a chat."""
    return _ref(text, "chat", THREAD_PREFIXES)


def channel(name: str, agent: str | None = None) -> ThreadName:
    """A thread by any form of its id, or by another system's name for it."""
    return ThreadName(name, parse_ref(name, *THREAD_PREFIXES), agent)


def message(text: str) -> Ref:
    """A message by any form of its id."""
    return _ref(text, "message", MESSAGE_PREFIXES)


def message_or_turn(text: str) -> Ref:
    """A message, or a turn of a session, by any form of its id."""
    return _ref(text, "message", MESSAGE_PREFIXES + TURN_PREFIXES)


def file(text: str) -> Ref:
    """A message's file by any form of its id."""
    return _ref(text, "file", FILE_PREFIXES)


def document(text: str) -> Ref:
    """A document by any form of its id."""
    return _ref(text, "document", DOCUMENT_PREFIXES)


def workspace(text: str) -> UUID:
    """A workspace by its UUID, with or without its prefix."""
    return uuid_of(text, "workspace", "ws_")


def candidate(text: str) -> UUID:
    """A candidate that waits for review, by its UUID, with or without its prefix."""
    return uuid_of(text, "candidate", "lrn_")


def uuid_of(text: str, thing: str, prefix: str = "") -> UUID:
    """The UUID of a thing whose id has no other form, with or without its prefix."""
    try:
        return UUID(text.removeprefix(prefix))
    except ValueError:
        raise NotFound(thing) from None


def _ref(text: str, thing: str, prefixes: tuple[str, ...]) -> Ref:
    ref = parse_ref(text, *prefixes)
    if ref is None:
        raise NotFound(thing)
    return ref
