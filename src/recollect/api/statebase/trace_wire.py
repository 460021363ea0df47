"""Wire models of traces, the audit events of a workspace."""

from typing import Literal

from pydantic import BaseModel, Field

from recollect.api.fields import Parameters, Time, iso
from recollect.api.statebase.wire import Object, session_id
from recollect.core.domain import Event


class TraceParameters(Parameters):
    """`GET /v1/traces`."""

    session_id: str | None = None
    user_id: str | None = None
    action: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    limit: int | None = Field(default=None, ge=1)
    starting_after: str | None = None


class TraceObject(BaseModel):
    """One audit event. It contains ids, never the text of a memory."""

    object: Literal["trace"] = "trace"
    id: str
    session_id: str | None
    user_id: str | None
    action: str
    actor: str
    timestamp: str
    details: Object
    metadata: Object


class TraceList(BaseModel):
    """A page of traces, newest first."""

    object: Literal["list"] = "list"
    data: list[TraceObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


def from_event(event: Event) -> TraceObject:
    """Return the wire form of an audit event."""
    details = dict(event.details)
    if "memory" in details:
        details["memory_id"] = f"mem_{details.pop('memory')[:12]}"
    if "turn" in details:
        details["turn_id"] = f"turn_{details.pop('turn')[:12]}"
    return TraceObject(
        id=f"trace_{event.id.hex}",
        session_id=session_id(event.thread_code) if event.thread_code else None,
        user_id=event.subject,
        action=event.action,
        actor=event.actor,
        timestamp=iso(event.at),
        details=details,
        metadata={},
    )
