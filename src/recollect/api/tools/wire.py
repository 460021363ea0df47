"""Fields and wire models that several memory tools and the agents interface share.

Null means absent everywhere.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, model_validator

from recollect.api.fields import Body
from recollect.core.domain import Memory

MemoryType = Literal[
    "fact", "preference", "decision", "identity", "event", "observation", "goal", "todo"
]
RelationType = Literal["related_to", "updates", "contradicts", "caused_by", "result_of", "part_of"]
SortBy = Literal["recent", "importance", "most_accessed"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=10_000)]


def _without_null(schema: dict[str, Any]) -> None:
    value_schema, _ = schema.pop("anyOf")
    schema.pop("default")
    schema.update(value_schema)


def optional(description: str) -> Any:
    """Declare a field that may be absent. Its schema omits null, so that models do not send it."""
    return Field(default=None, description=description, json_schema_extra=_without_null)


class Arguments(Body):
    """The arguments of a tool: exact types, unknown names ignored, null means absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        return {name: value for name, value in fields.items() if value is not None}


class AssociationArguments(Arguments):
    """A link from the new memory to an existing one."""

    target_id: str = Field(description="The memory to link to. An unknown one is ignored.")
    relation_type: RelationType = Field(
        default="related_to",
        description="How the new memory relates to the target: related_to; updates (it replaces "
        "the target, which recall then no longer shows); contradicts; caused_by; result_of; "
        "part_of.",
    )
    weight: Fraction = Field(default=0.5, description="How strong the link is, 0.0 to 1.0.")


class Why(BaseModel):
    """The rank of a memory in one of the lists that found it."""

    source: Literal["vector", "words", "links", "time"]
    rank: int
    score: float
    path: list[str] | None = optional(
        "For links: memory, relation, memory, ..., from the start of the path."
    )


class RecalledMemory(BaseModel):
    """A memory in a `memory_recall` result. The last four fields appear only if they apply."""

    id: str = Field(description="The UUID; `memory_delete` takes it.")
    content: str
    memory_type: MemoryType
    importance: float
    created_at: str
    relevance_score: float = Field(
        description="0.0 to 1.0. In hybrid mode the sum of 1/(60 + rank) over the lists that "
        "found it. Comparable only within one result."
    )
    doubted: bool | None = optional(
        "True if it is based on a statement that was later replaced or forgotten."
    )
    valid_until: str | None = optional("When another memory replaced it.")
    superseded_by: str | None = optional("The memory that replaced it.")
    why: list[Why] | None = optional("Only with `explain`: the lists that found it.")


def memory_type(memory: Memory) -> Any:
    """Return the type of a memory. A category that is not a type counts as a fact."""
    return memory.kind or "fact"


def to_kinds(memory_type: str | None) -> list[str] | None:
    """Return the type to filter by, or None for any type."""
    return None if memory_type is None else [memory_type]
