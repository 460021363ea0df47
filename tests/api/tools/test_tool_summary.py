"""The Markdown summary of recalled memories."""

from uuid import UUID

import pytest

from recollect.api.tools.summary import preview, summary
from recollect.api.tools.wire import RecalledMemory, Why
from recollect.core.domain import MemoryId
from recollect.search.ranking import LinkedNode, RankedList, fuse

ID = "0b9bd1a5-5f4c-4d0c-9c0d-6a5a4a2f7f10"


def recalled(content: str, why: list[Why] | None = None) -> RecalledMemory:
    return RecalledMemory(
        id=ID,
        content=content,
        memory_type="fact",
        importance=0.5,
        created_at="2026-03-01T08:00:00.000000Z",
        relevance_score=1.0,
        why=why,
    )


def entry(content: str) -> list[str]:
    """Return the lines of a single entry, without heading and indent."""
    lines = summary([recalled(content)], 1).splitlines()[3:]
    assert all(line.startswith("   ") for line in lines if line)
    return [line[3:] for line in lines]


def test_N39_an_entry_of_ordinary_length_is_shown_whole() -> None:
    content = "a " * 999 + "ab"

    assert entry(content) == [content]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("pay \u202e001 \u2066now", ["pay 001 now"]),
        ("\x1b[31mred\x1b[0m and \x9b2Jgone", ["red and gone"]),
        ("bell \x07 and \u200bnothing\ttab", ["bell  and nothing\ttab"]),
        ("two\r\nlines", ["two", "lines"]),
        ("Zoë mag die 猫 👍", ["Zoë mag die 猫 👍"]),
    ],
)
def test_control_and_direction_characters_are_removed_from_an_entry(
    content: str, shown: list[str]
) -> None:
    assert entry(content) == shown


def test_R273_a_preview_contains_only_visible_text() -> None:
    assert preview("\x1b[31mpay \u202e001\x1b[0m\nand more") == "pay 001"


def test_R268_relevance_never_exceeds_the_stated_maximum() -> None:
    memory_id = MemoryId(UUID(ID))
    first_everywhere = {
        source: [LinkedNode(memory_id, 1.0)]
        for source in (RankedList.VECTOR, RankedList.WORDS, RankedList.LINKS)
    }

    [best] = fuse(first_everywhere)

    assert 0.045 < best.score <= 0.05


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("x" * 1_900 + "\n" + "y. " * 50_000, ["x" * 1_900]),
        ("x" * 1_900 + ". " + "y " * 50_000, ["x" * 1_900 + "."]),
        ("x" * 1_900 + " " + "y" * 50_000, ["x" * 1_900]),
        ("x" * 50_000, ["x" * 2_000]),
        ("\n" * 10 + "one\n" + "x" * 50_000, ["one", "x" * 1_996]),
    ],
)
def test_R260_a_long_entry_is_cut_with_a_pointer_to_the_full_memory(
    content: str, shown: list[str]
) -> None:
    *lines, note = entry(content)

    left = len(content.strip()) - len("\n".join(lines))
    assert lines == shown
    assert note == (
        f"[Cut here, {left:,} more characters. The whole memory: resource `memory://{ID}`, "
        f"or `GET /v1/memory/{ID}`.]"
    )


def test_R260_fifty_long_memories_give_a_summary_of_bounded_length() -> None:
    assert len(summary([recalled("word " * 10_000)] * 50, 50)) < 120_000


def test_an_entry_can_name_the_lists_that_found_it() -> None:
    why = [
        Why(source="vector", rank=1, score=0.9),
        Why(source="words", rank=12, score=0.4),
        Why(source="links", rank=2, score=0.3, path=["ana", "caused_by", "ben", "part_of", ID]),
        Why(source="time", rank=3, score=1.0),
    ]

    lines = summary([recalled("Ana takes tea", why)], 1).splitlines()

    assert lines[3:] == [
        "   Ana takes tea",
        (
            "   [Found by meaning (rank 1), words (rank 12), links (rank 2, from ana over caused_by to "
            "ben over part_of), time (rank 3).]"
        ),
    ]
    assert summary([recalled("tea", why=[])], 1) == summary([recalled("tea")], 1)


def test_N39_a_degraded_summary_says_so_in_one_line() -> None:
    lines = summary([recalled("tea")], 1, is_ranked=True, is_degraded=True).splitlines()

    assert lines[:3] == [
        "## Memories (1 of 1, best first; relevance is at most 0.05)",
        "",
        "Found by words and links alone: search by meaning is unavailable right now.",
    ]
    assert summary([], 0, is_degraded=True) == (
        "No memories were found by words and links; search by meaning is unavailable right now."
    )
