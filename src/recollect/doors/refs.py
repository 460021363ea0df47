"""Ids as clients spell them. Each door writes its own spelling and takes every other's.

What can be no id names nothing, so it is not found, like an id that is nobody's.
"""

from uuid import UUID

from recollect.domain import (
    DOCUMENT_PREFIXES,
    FILE_PREFIXES,
    MEMORY_PREFIXES,
    MESSAGE_PREFIXES,
    THREAD_PREFIXES,
    Ref,
    parse_ref,
)
from recollect.engine.channels import Channel
from recollect.errors import NotFound


def memory(text: str) -> Ref:
    """A memory by any spelling of its id."""
    return _ref(text, "memory", MEMORY_PREFIXES)


def session(text: str) -> Ref:
    """A thread by any spelling of its id, at a door that calls it a session."""
    return _ref(text, "session", THREAD_PREFIXES)


def chat(text: str) -> Ref:
    """A thread by any spelling of its id, at a door that calls it a chat."""
    return _ref(text, "chat", THREAD_PREFIXES)


def channel(name: str, agent: str | None = None) -> Channel:
    """A thread by any spelling of its id, or by the name that somebody else has for it."""
    return Channel(name, parse_ref(name, *THREAD_PREFIXES), agent)


def message(text: str) -> Ref:
    """A message by any spelling of its id."""
    return _ref(text, "message", MESSAGE_PREFIXES)


def file(text: str) -> Ref:
    """A file of a message by any spelling of its id."""
    return _ref(text, "file", FILE_PREFIXES)


def document(text: str) -> Ref:
    """A document by any spelling of its id."""
    return _ref(text, "document", DOCUMENT_PREFIXES)


def workspace(text: str) -> UUID:
    """A workspace by its UUID, with or without its prefix."""
    return uuid_of(text, "workspace", "ws_")


def candidate(text: str) -> UUID:
    """What was learnt and waits, by its UUID, with or without its prefix."""
    return uuid_of(text, "candidate", "lrn_")


def uuid_of(text: str, thing: str, prefix: str = "") -> UUID:
    """The UUID of a thing that has no other spelling, with or without its prefix."""
    try:
        return UUID(text.removeprefix(prefix))
    except ValueError:
        raise NotFound(thing) from None


def _ref(text: str, thing: str, prefixes: tuple[str, ...]) -> Ref:
    ref = parse_ref(text, *prefixes)
    if ref is None:
        raise NotFound(thing)
    return ref
