"""The tool `memory_save`: save a memory and link it to similar and to named memories."""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from recollect.api import ids
from recollect.api.fields import Label, Tags, Time
from recollect.api.tools.tool import Tool
from recollect.api.tools.wire import (
    Arguments,
    AssociationArguments,
    Fraction,
    MemoryType,
    Text,
    optional,
)
from recollect.core.domain import (
    MEMORY_PREFIXES,
    Caller,
    Lifecycle,
    Memory,
    Origin,
    Relation,
    Right,
    parse_ref,
)
from recollect.core.errors import Invalid
from recollect.engine import Engine
from recollect.memories.links import Link
from recollect.memories.save import Save, save
from recollect.tenancy.thread_lookup import ThreadName

MAX_ASSOCIATIONS = 100
SAVED = "Memory saved successfully"


class SaveArguments(Arguments):
    """`memory_save`. The fields from `key` on are Recollect's own additions."""

    content: str = Field(
        description="What to remember. Concise but complete, at most 50,000 bytes.",
        json_schema_extra={"minLength": 1},
    )
    memory_type: MemoryType = Field(
        default="fact",
        description="fact; preference (of the user); decision (taken in a conversation); "
        "identity (who someone is; never loses importance); event; observation (a pattern or "
        "insight); goal; todo.",
    )
    importance: Fraction | None = optional(
        "0.0 to 1.0; higher values are recalled more easily. Default by type: identity 1.0, "
        "decision 0.8, preference 0.7, goal 0.7, fact 0.5, event 0.5, observation 0.4, todo 0.3."
    )
    source: Text | None = optional(
        "Where this comes from: `user stated explicitly`, `inferred from conversation`, ..."
    )
    channel_id: Label | None = optional(
        "The conversation it comes from: an id, or any name that you choose. Recall from the same "
        "conversation prefers it."
    )
    associations: Annotated[list[AssociationArguments], Field(max_length=MAX_ASSOCIATIONS)] = Field(
        default=[], description="Links to other memories."
    )
    key: Label | None = optional("A short label that you choose. It is searched as words, too.")
    tags: Tags = Field(default=[], description="Labels to filter by.")
    expires_at: Time | None = optional("RFC 3339. After this time the memory is no longer found.")
    pinned: bool = Field(default=False, description="A pinned memory never loses importance.")
    said_at: Time | None = optional(
        "RFC 3339. When it was said, for imported memories. Default: now. It cannot be in the "
        "future."
    )


class SaveResult(BaseModel):
    """The result of `memory_save`."""

    memory_id: str = Field(description="The UUID of the saved memory.")
    success: bool
    message: str


async def save_memory(
    engine: Engine, caller: Caller, arguments: SaveArguments, *, agent: str | None = None
) -> Memory:
    """Save a memory with these arguments and return it, for an agent if one is named."""
    if arguments.expires_at and arguments.expires_at <= engine.now():
        raise Invalid("`expires_at` is in the past.", field="expires_at")
    return (await save(engine, caller, _to_save(arguments, agent))).memory


async def _run(engine: Engine, caller: Caller, arguments: SaveArguments) -> SaveResult:
    memory = await save_memory(engine, caller, arguments)
    return SaveResult(memory_id=str(memory.id), success=True, message=SAVED)


MEMORY_SAVE = Tool(
    name="memory_save",
    title="Save a memory",
    description="Save something worth remembering for later conversations: a fact, preference, "
    "decision, event, observation, goal, todo, or someone's identity. It can be found by "
    "meaning, by words and by links. To correct an earlier memory, link to it with "
    "`updates`.",
    arguments=SaveArguments,
    result=SaveResult,
    right=Right.WRITE,
    action=_run,
)


def _to_save(arguments: SaveArguments, agent: str | None) -> Save:
    """Parse the arguments. Memories saved by tools decay, except those of type identity."""
    is_permanent = arguments.memory_type == "identity"
    return Save(
        content=arguments.content,
        thread_name=_thread_name(arguments.channel_id, agent),
        key=arguments.key,
        category=arguments.memory_type,
        tags=arguments.tags,
        importance=arguments.importance,
        pinned=arguments.pinned,
        expires_at=arguments.expires_at,
        origin=Origin.MODEL,
        lifecycle=Lifecycle.PERMANENT if is_permanent else Lifecycle.DECAYING,
        source_note=arguments.source,
        links=_links(arguments.associations),
        links_similar=True,
        said_at=arguments.said_at,
    )


def _thread_name(channel: str | None, agent: str | None) -> ThreadName | None:
    if agent is None:
        return None if channel is None else ids.channel(channel)
    # Memories that an agent saves outside any conversation go into a thread of its own.
    thread = (
        ThreadName(f"agent:{agent}", agent=agent)
        if channel is None
        else ids.channel(channel, agent)
    )
    return replace(thread, is_agent_only=True)


def _links(associations: list[AssociationArguments]) -> list[Link]:
    """Return the links. Malformed target ids are skipped, like unknown ones."""
    targets = [(parse_ref(each.target_id, *MEMORY_PREFIXES), each) for each in associations]
    return [Link(ref, Relation(each.relation_type), each.weight) for ref, each in targets if ref]
