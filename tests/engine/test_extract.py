"""The local summary: whole sentences as they were said, with who said them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.extract import Line, split_sentences, summary_of


def test_it_says_who_said_what_and_keeps_numbers_names_and_dates() -> None:
    lines = [
        Line("User", "Hi!"),
        Line("User", "What were our Q4 targets?"),
        Line("Assistant", "The Q4 targets were $2.5M in revenue, due on 15 January 2026."),
        Line("User", "Thanks!"),
    ]

    assert summary_of(lines) == (
        "User asks: What were our Q4 targets? "
        "Assistant says: The Q4 targets were $2.5M in revenue, due on 15 January 2026."
    )


def test_a_short_answer_brings_its_question() -> None:
    lines = [
        Line("Ana", "When does the train to Lisbon leave on Friday?"),
        Line("Ben", "At 7:10."),
        Line("Ana", "Then I will book two seats on the Friday train to Lisbon."),
    ]

    summary = summary_of(lines)

    assert "Ana asks: When does the train to Lisbon leave on Friday? Ben says: At 7:10." in summary


def test_code_and_markup_are_left_out() -> None:
    text = (
        "## Plan\n- **First** we copy the data.\n```sql\nDROP TABLE memory;\n```\nThen we test it."
    )

    assert split_sentences(text) == ["Plan", "First we copy the data.", "Then we test it."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Weber paid $2.5M. It was late.", ["Dr. Weber paid $2.5M.", "It was late."]),
        ("Meet at 5 p.m. at J. Smith's. OK?", ["Meet at 5 p.m. at J. Smith's.", "OK?"]),
        ("今日は晴れです。明日は雨です。", ["今日は晴れです。", "明日は雨です。"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_pleasantries_alone_still_say_something() -> None:
    assert summary_of([Line("Ana", "Hello!"), Line("Ben", "Hi")]) != ""
    assert summary_of([Line("Ana", "  ")]) == ""


@given(
    st.lists(st.builds(Line, st.sampled_from(["Ana", "Ben"]), st.text(max_size=200)), max_size=25)
)
def test_every_sentence_of_a_summary_was_said(lines: list[Line]) -> None:
    said = {sentence.rstrip(".") for line in lines for sentence in split_sentences(line.text)}

    # The speakers first: somebody may have said nothing but a letter of a name.
    rest = re.sub(r"\b(?:Ana|Ben) (?:says|asks): ", "", summary_of(lines))
    for each in sorted(said, key=len, reverse=True):
        if each:
            rest = rest.replace(each, "")

    assert rest.replace(".", "").strip() == ""
