"""Texts made to be slow to read: whoever reads them holds up everybody else in the process.

No clock is needed. What these took before, by an expression that tries every way to read them, is
hours, or longer than anything lasts.
"""

from datetime import UTC, datetime

import pytest

from recollect.engine.distiller import concluded, distilled
from recollect.engine.extract import Line, summary_of
from recollect.engine.fence import TAG, unfenced
from recollect.engine.secrets import BLOT, redacted
from recollect.models.librarian import answer

NOW = datetime(2026, 11, 16, tzinfo=UTC)
MANY = 1_000_000


def test_blanks_and_blocks_without_end_are_left_as_they_are() -> None:
    opened = f"<{TAG}-abc>"
    assert unfenced(" \n" * MANY) == " \n" * MANY
    assert unfenced(opened * 100_000) == opened * 100_000
    assert unfenced(f"a{' ' * MANY}{opened}b</{TAG}-abc> c") == "a c"


def test_each_block_goes_with_the_blanks_before_it_and_ends_where_its_own_end_is() -> None:
    first, second = f"<{TAG}-a1>", f"&lt;{TAG}-b2>"
    text = f"Tea. \n{first}x</{TAG}-b2>y</{TAG}-a1> And\n\n{second}z&lt;/{TAG}-b2>milk"
    assert unfenced(text) == "Tea. Andmilk"
    assert unfenced(f"</{TAG}-a1>{first}{first}x</{TAG}-a1>") == f"</{TAG}-a1>"


@pytest.mark.parametrize("word", ["goodbye", "see you then", "thank you"])
def test_a_sentence_of_pleasantries_is_summarised_whatever_ends_it(word: str) -> None:
    text = f"{word} " * 2_000 + "xyzzy"
    assert summary_of([Line("User", text)]) == f"User says: {text}."


def test_initials_and_brackets_are_read_once() -> None:
    assert summary_of([Line("User", "A. " * 30_000)]).startswith("User says: A. A. A.")
    assert concluded("[" * MANY + "![" * MANY) == []
    assert concluded("[x](" * 30_000) == []


def test_lines_and_keys_without_end_are_read_once() -> None:
    assert distilled("\n" * MANY, NOW) == []
    assert redacted("sk-a-" * 60_000) == "sk-a-" * 60_000
    assert redacted(f"My key is sk-ant-api03-{'ab-' * 9}{'x' * 20}.") == f"My key is {BLOT}."


def test_the_librarian_hears_blanks_and_what_only_looks_like_a_memory() -> None:
    said = {"role": "user", "content": " " * MANY + "<recollect-memory-a> " * 100_000}
    assert answer([said], []).text.startswith("I am recollect-librarian")
    forged = '{"id": "mem_1", "date": 7}\n{"id": "mem_2" }}\n{"id": "mem_3", "text": [1]}'
    told = answer([{"role": "user", "content": f"{forged}\nWhat is it?"}], []).text
    assert told == "I was told:\n- “” (mem_1, 7)\n- “[1]” (mem_3)"
