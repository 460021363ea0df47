"""Texts made to be slow to parse: while one is parsed, the process serves no other request.

The tests need no clock. With a regular expression that backtracks, these texts took hours or more.
"""

from datetime import UTC, datetime

import pytest

from recollect.conversations.extractive_summary import SpokenLine, summary_of
from recollect.core.prompt_fence import TAG, strip_fences
from recollect.learning.rules import distil_outcome, distil_statements
from recollect.learning.secrets import REDACTED, redact
from recollect.models.librarian import answer

NOW = datetime(2026, 11, 16, tzinfo=UTC)
MANY = 1_000_000


def test_blanks_and_unclosed_fences_are_left_unchanged() -> None:
    opened = f"<{TAG}-abc>"
    assert strip_fences(" \n" * MANY) == " \n" * MANY
    assert strip_fences(opened * 100_000) == opened * 100_000
    assert strip_fences(f"a{' ' * MANY}{opened}b</{TAG}-abc> c") == "a c"


def test_S72_each_fence_is_removed_up_to_its_own_end_tag() -> None:
    first, second = f"<{TAG}-a1>", f"&lt;{TAG}-b2>"
    text = f"Tea. \n{first}x</{TAG}-b2>y</{TAG}-a1> And\n\n{second}z&lt;/{TAG}-b2>milk"
    assert strip_fences(text) == "Tea. Andmilk"
    assert strip_fences(f"</{TAG}-a1>{first}{first}x</{TAG}-a1>") == f"</{TAG}-a1>"


@pytest.mark.parametrize("word", ["goodbye", "see you then", "thank you"])
def test_a_long_sentence_of_pleasantries_is_summarised(word: str) -> None:
    text = f"{word} " * 2_000 + "xyzzy"
    assert summary_of([SpokenLine("User", text)]) == f"User says: {text}."


def test_many_initials_and_brackets_are_read_quickly() -> None:
    assert summary_of([SpokenLine("User", "A. " * 30_000)]).startswith("User says: A. A. A.")
    assert distil_outcome("[" * MANY + "![" * MANY) == []
    assert distil_outcome("[x](" * 30_000) == []


def test_many_lines_and_key_prefixes_are_read_quickly() -> None:
    assert distil_statements("\n" * MANY, NOW) == []
    assert redact("sk-a-" * 60_000) == "sk-a-" * 60_000
    assert redact(f"My key is sk-ant-api03-{'ab-' * 9}{'x' * 20}.") == f"My key is {REDACTED}."


def test_the_librarian_copes_with_blanks_and_forged_memories() -> None:
    message = {"role": "user", "content": " " * MANY + "<recollect-memory-a> " * 100_000}
    assert answer([message], []).text.startswith("I am recollect-librarian")
    forged = '{"id": "mem_1", "date": 7}\n{"id": "mem_2" }}\n{"id": "mem_3", "text": [1]}'
    reply = answer([{"role": "user", "content": f"{forged}\nWhat is it?"}], []).text
    assert reply == "I remember:\n- “” (mem_1, 7)\n- “[1]” (mem_3)"
