"""A field of a memory is stored, saved, edited and exported everywhere, or a test here fails."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from recollect.core.domain import Caller, Lifecycle, Memory, Origin, Ref, Scope
from recollect.engine import Engine
from recollect.memories.edit import EditMemory, edit, find_memory
from recollect.memories.queries.memories import MEMORY_COLUMNS
from recollect.memories.save import Save, save
from recollect.portability.queries import exports
from recollect.portability.records import KINDS
from tests.support.clock import Clock

pytestmark = pytest.mark.anyio

# Fields of a `Memory` that are in no column of their own, or in one that no column list has.
JOINED = {"thread_code", "thread_label", "has_vector"}
WRITTEN_APART = {"workspace_id", "org_id", "version"}


def names_of(each: type[Any]) -> set[str]:
    return {field.name for field in fields(each)}


def test_every_field_of_a_memory_has_a_column() -> None:
    assert names_of(Memory) - JOINED - WRITTEN_APART == set(MEMORY_COLUMNS)


def test_every_exported_column_of_a_memory_has_a_record_field() -> None:
    exported = [name.strip() for name in exports.MEMORY.split(",")]

    assert exported == list(KINDS["memory"])


async def test_every_given_field_is_stored(engine: Engine, caller: Caller, clock: Clock) -> None:
    given: dict[str, Any] = {
        "content": "Ada drinks tea",
        "subject": "ada",
        "summary": "tea",
        "key": "drink",
        "category": "goal",
        "tags": ("drink", "habit"),
        "metadata": {"cups": 2},
        "importance": 0.9,
        "pinned": True,
        "expires_at": clock() + timedelta(days=1),
        "wants_vector": False,
        "origin": Origin.AUTO,
        "origin_label": "auto_research",
        "lifecycle": Lifecycle.DECAYING,
        "source_note": "notes.md",
        "quote": "I drink tea",
        "scope": Scope.GLOBAL,
    }

    saved = (await save(engine, caller, Save(**given))).memory
    found = await find_memory(engine, caller, Ref(id=saved.id))

    assert set(given) == names_of(Save) & names_of(Memory)
    assert {name: getattr(found, name) for name in given} == given
    assert saved == found


async def test_every_edited_field_is_stored(engine: Engine, caller: Caller, clock: Clock) -> None:
    saved = await save(engine, caller, Save("Ada drinks tea", metadata={"cups": 2}))
    given: dict[str, Any] = {
        "content": "Ada drinks coffee",
        "summary": "coffee",
        "key": "drink",
        "category": "goal",
        "tags": ("drink",),
        "metadata": {"sugar": False},
        "importance": 0.9,
        "pinned": True,
        "expires_at": clock() + timedelta(days=1),
    }

    await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(**given))
    found = await find_memory(engine, caller, Ref(id=saved.memory.id))

    expected = given | {"metadata": {"cups": 2, "sugar": False}}
    assert set(given) == names_of(EditMemory)
    assert {name: getattr(found, name) for name in given} == expected
    assert (found.kind, found.importance_base) == ("goal", 0.9)
