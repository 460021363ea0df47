import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.twins import TWIN_FLOOR, is_twin, normalised

HERE = Path(__file__).parent
BLIND = 0.999  # an embedder that sees no difference at all


def pairs(name: str) -> list[tuple[str, str, str]]:
    """What changed or which half, the old statement, the new one."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return [(row[0], row[1], row[2]) for row in rows]


CORRECTIONS = pairs("corrections.tsv")
REWORDINGS = pairs("rewordings.tsv")

any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=120)


@pytest.mark.parametrize(("changed", "old", "new"), CORRECTIONS)
def test_no_correction_is_swallowed(changed: str, old: str, new: str) -> None:
    assert not is_twin(old, new, BLIND)
    assert not is_twin(new, old, BLIND)


# "second" was written after the rule and not looked at before: 59 of 70 in its first run, and "first"
# 56 of 68 in its own. Both shares may rise; a fall means the rule lost something it knew.
@pytest.mark.parametrize(("half", "floor"), [("first", 0.9), ("second", 0.85)])
def test_most_rewordings_are_caught(half: str, floor: float) -> None:
    asked = [(old, new) for each, old, new in REWORDINGS if each == half]

    caught = [pair for pair in asked if is_twin(*pair, BLIND)]

    assert len(caught) / len(asked) >= floor


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("User prefers dark mode", "The user likes dark mode"),
        ("Ada takes her tea without milk", "Ada drinks tea with no milk"),
        ("Ada drinks tea with no milk", "Ada takes her tea without milk"),
        ("The launch is March 15, 2026", "The launch is on 2026-03-15"),
    ],
)
def test_a_slight_rewording_is_a_twin_from_the_floor_up(old: str, new: str) -> None:
    assert is_twin(old, new, TWIN_FLOOR)
    assert not is_twin(old, new, TWIN_FLOOR - 0.001)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User lives in Oslo.", "user  lives in oslo"),
        ("“Dark mode”, please!", "dark mode please"),
        ("don\u2019t", "don't"),
        ("\uff21\uff42\uff43", "abc"),
        ("costs 1,000", "costs 1000"),
        ("猫が好きです。", "猫が 好きです"),
    ],
)
def test_normalised_texts_differ_in_nothing_that_is_heard(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5² m", "52 m"),
        ("1½ cups", "11/2 cups"),
        ("-5 degrees", "5 degrees"),
        ("works in IT", "works in it"),
        ("C++", "C"),
        ("group A-", "group A"),
        ("👍", "👎"),
        ("Zoë", "Zoe"),
        ("Ana likes tea?", "Ana likes tea"),
        ("...", "!"),
    ],
)
def test_normalised_texts_keep_what_carries_a_value(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_a_document_is_a_twin_only_word_for_word() -> None:
    document = "The user likes dark mode. " * 100

    assert is_twin(document, document.upper(), 1.0)
    assert not is_twin(document, document.replace("likes", "prefers"), 1.0)


@given(any_text)
def test_every_text_is_its_own_twin(text: str) -> None:
    assert is_twin(text, text, 1.0)


@pytest.mark.parametrize(("half", "old", "new"), REWORDINGS)
def test_twins_are_mutual(half: str, old: str, new: str) -> None:
    assert is_twin(old, new, BLIND) == is_twin(new, old, BLIND)


@given(
    st.sampled_from([old for _, old, _ in CORRECTIONS]),
    st.from_regex(r"[b-df-hj-np-tv-z]{7}|[1-9][0-9]{4}", fullmatch=True),
    st.integers(0, 20),
)
def test_an_unknown_word_put_in_anywhere_makes_another_statement(
    text: str, word: str, place: int
) -> None:
    words = text.split()
    words.insert(place % (len(words) + 1), word)

    assert not is_twin(text, " ".join(words), 1.0)
