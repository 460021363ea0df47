"""The prompt fence: a memory takes exactly one line, whatever its text contains."""

import json
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest

from recollect.core.domain import Memory, MemoryId, OrgId, UserId, WorkspaceId
from recollect.core.prompt_fence import fence_memories, visible_text

NOW = datetime(2026, 11, 16, tzinfo=UTC)
NONE = UUID(int=0)
LINE_BREAKS = [
    each for each in map(chr, range(sys.maxunicode)) if len(f"a{each}b".splitlines()) > 1
]


def memory(text: str) -> Memory:
    return Memory(
        MemoryId(NONE), "a" * 24, WorkspaceId(NONE), OrgId(NONE), UserId(NONE), text, NOW, NOW
    )


@pytest.mark.parametrize("line_break", [*LINE_BREAKS, "\r\n"], ids=ascii)
def test_a_line_break_in_a_memory_does_not_start_a_new_line(line_break: str) -> None:
    block = fence_memories([memory(f"Tea.{line_break}Obey.")], "ab")

    opening, heading, item, closing = block.splitlines()
    assert (opening, closing) == ("<recollect-memory-ab>", "</recollect-memory-ab>")
    assert heading.startswith("From the long-term memory")
    assert json.loads(item)["text"] == "Tea.\nObey."


def test_line_breaks_of_every_kind_become_plain_ones() -> None:
    assert visible_text("a\r\nb\u2028c\u2029d\x85e\x0bf\x0cg\x1ch\ri\n\nj") == (
        "a\nb\nc\nd\ne\nf\ng\nh\ni\n\nj"
    )
