"""The local summary: whole sentences, quoted unchanged with their speakers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.conversations.extractive_summary import (
    SpokenLine,
    fit_to_length,
    shorten,
    split_sentences,
    summary_of,
)


def test_a_summary_names_speakers_and_keeps_numbers_names_and_dates() -> None:
    lines = [
        SpokenLine("User", "Hi!"),
        SpokenLine("User", "What were our Q4 targets?"),
        SpokenLine("Assistant", "The Q4 targets were $2.5M in revenue, due on 15 January 2026."),
        SpokenLine("User", "Thanks!"),
    ]

    assert summary_of(lines) == (
        "User asks: What were our Q4 targets? "
        "Assistant says: The Q4 targets were $2.5M in revenue, due on 15 January 2026."
    )


def test_a_short_answer_is_quoted_with_its_question() -> None:
    lines = [
        SpokenLine("Ana", "When does the train to Lisbon leave on Friday?"),
        SpokenLine("Ben", "At 7:10."),
        SpokenLine("Ana", "Then I will book two seats on the Friday train to Lisbon."),
    ]

    summary = summary_of(lines)

    assert "Ana asks: When does the train to Lisbon leave on Friday? Ben says: At 7:10." in summary


def test_a_question_followed_by_more_text_still_includes_its_answer() -> None:
    lines = [
        SpokenLine(
            "Ana", "Are you coming to band practice in Lisbon? Our Lisbon show is this Friday."
        ),
        SpokenLine("Ben", "Yes, tonight."),
    ]

    assert summary_of(lines) == (
        "Ana asks: Are you coming to band practice in Lisbon? Our Lisbon show is this Friday. "
        "Ben says: Yes, tonight."
    )


@pytest.mark.parametrize(
    "stalling", ["Hi, Susan.", "Good morning, Mrs. Brown!", "Let me see.", "Well, just a moment."]
)
def test_a_greeting_or_filler_phrase_is_not_an_answer(stalling: str) -> None:
    lines = [
        SpokenLine("Ana", "When does the train to Lisbon leave on Friday?"),
        SpokenLine("Ben", f"{stalling} It leaves at ten past seven."),
        SpokenLine("Ana", "Good."),
    ]

    assert summary_of(lines) == (
        "Ana asks: When does the train to Lisbon leave on Friday? "
        "Ben says: It leaves at ten past seven."
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Well, the rent is 850 euros.", "The rent is 850 euros."),
        ("oh... hmm, you know, it rained all day.", "It rained all day."),
        ("Tja, die Miete steigt wieder.", "Die Miete steigt wieder."),
        ("Well-known authors read here.", "Well-known authors read here."),
        ("No, the rent is 850 euros.", "No, the rent is 850 euros."),
        ("Well...", "Well..."),
    ],
)
def test_filler_words_at_the_start_of_a_sentence_are_removed(said: str, expected: str) -> None:
    assert summary_of([SpokenLine("Ana", said)]) == f"Ana says: {expected}"


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
def test_texts_are_split_into_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Die Miete steigt am 1. Januar auf 850 Euro.",
        "Wir treffen uns am 24.12. um 18 Uhr.",
        "Am 1. Mai haben wir z.B. Äpfel, Birnen usw. zu verkaufen.",
        "Vi ses den 3. mars kl. 5 ved havnen.",
        "Order No. 4711 is late.",
        "The U.S. economy grew 3 %.",
        "He joined the U.S. Army at J. D. Smith's.",
        "El Sr. García paga 300 euros.",
        "Dr. De Vries is away until Sept. 5 at 8 a.m. or so.",
        "Мы живём в г. Москва на ул. Ленина.",
        "I was thinking... maybe in May.",
        '"Why?" she asked.',
        "「はい。」と言った。",
        "1. The plan",
    ],
)
def test_a_sentence_continues_after_an_abbreviation_or_an_ordinal(sentence: str) -> None:
    assert split_sentences(f"{sentence}\n{sentence}") == [sentence, sentence]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He is 25. She is 30.", ["He is 25.", "She is 30."]),
        ("Ich habe 3. Die anderen sind weg.", ["Ich habe 3.", "Die anderen sind weg."]),
        ("I live in the U.S. It is big.", ["I live in the U.S.", "It is big."]),
        ("Take vitamin C. It helps.", ["Take vitamin C.", "It helps."]),
        ("No. I said no. No. 5 is alive.", ["No.", "I said no.", "No. 5 is alive."]),
        ("i slept at home. then it rained.", ["i slept at home.", "then it rained."]),
        ("كيف حالك؟ أنا بخير.", ["كيف حالك؟", "أنا بخير."]),
        ("मैं ठीक हूँ। तुम कैसे हो?", ["मैं ठीक हूँ।", "तुम कैसे हो?"]),
    ],
)
def test_a_sentence_ends_if_the_next_word_starts_a_new_one(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("1. Copy the data.\n2. Test it.", ["Copy the data.", "Test it."]),
        ("1) Copy\n2) Test\n\n1) Sleep", ["Copy", "Test", "Sleep"]),
        ("15. August.", ["15. August."]),
        ("1. August: dentist\n15. August: barber", ["1. August: dentist", "15. August: barber"]),
        ("1. August: dentist\n2. August: barber", ["1. August: dentist", "2. August: barber"]),
    ],
)
def test_list_numbers_are_removed_but_dates_are_kept(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_an_answer_keeps_its_date() -> None:
    lines = [SpokenLine("Ben", "When is the exam?"), SpokenLine("Anna", "15. August.")]

    assert summary_of(lines) == "Ben asks: When is the exam? Anna says: 15. August."


def test_common_words_are_those_of_the_conversations_language() -> None:
    lines = [
        SpokenLine("Anna", "Die Heizung im Keller ist kaputt."),
        SpokenLine("Ben", "Das ist mir egal, und ich bin nicht der, der sich um das kümmert."),
        SpokenLine("Anna", "Das ist es ja, was mich an dir so ärgert."),
        SpokenLine("Ben", "Die Firma Koch repariert die Heizung am 3. Mai für 400 Euro."),
    ]

    assert summary_of(lines) == (
        "Anna says: Die Heizung im Keller ist kaputt. "
        "Ben says: Die Firma Koch repariert die Heizung am 3. Mai für 400 Euro."
    )


def test_pleasantries_alone_still_get_a_summary() -> None:
    assert summary_of([SpokenLine("Ana", "Hello!"), SpokenLine("Ben", "Hi")]) != ""
    assert summary_of([SpokenLine("Ana", "  ")]) == ""


@given(
    st.lists(
        st.builds(SpokenLine, st.sampled_from(["Ana", "Ben"]), st.text(max_size=200)), max_size=25
    )
)
def test_every_sentence_of_a_summary_was_said(lines: list[SpokenLine]) -> None:
    said = {sentence.rstrip(".") for line in lines for sentence in split_sentences(line.text)}

    # Remove the speakers first, because a sentence may be a single letter of a name.
    rest = re.sub(r"\b(?:Ana|Ben) (?:says|asks): ", "", summary_of(lines))
    for each in sorted(said, key=len, reverse=True):
        if each:
            rest = rest.replace(each, "")

    assert rest.replace(".", "").strip() == ""


@given(
    st.lists(
        st.builds(SpokenLine, st.sampled_from(["Ana", "Ben"]), st.text(max_size=200)), max_size=25
    ),
    st.integers(100, 400),
)
def test_a_summary_respects_its_maximum_length(lines: list[SpokenLine], longest: int) -> None:
    whole, short = summary_of(lines), summary_of(lines, longest)

    assert len(short) <= longest
    assert (short == whole) == (len(whole) <= longest)


@given(st.lists(st.text(alphabet="ab", max_size=50), min_size=1, max_size=20), st.integers(19, 500))
def test_short_texts_leave_more_room_for_long_ones(texts: list[str], room: int) -> None:
    found = fit_to_length(texts, room)

    assert len("\n".join(found)) <= room
    if len("\n".join(texts)) <= room:
        assert found == texts
    else:
        # No cut text is shorter than another text needs to be.
        least = min(len(each) for each, text in zip(found, texts, strict=True) if each != text)
        assert max(map(len, found)) <= least + 1


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [
        ("We meet at noon.", 16, "We meet at noon."),
        ("We meet at noon.", 15, "We meet at…"),
        ("We meet at noon.", 11, "We meet at…"),
        ("总共300000元", 7, "总共…"),
        ("ไปทำงาน", 4, "ไป…"),
        ("e\u0301e\u0301e\u0301", 4, "e\u0301…"),
        ("👍🏽👍🏽👍🏽", 4, "👍🏽…"),
        ("👩‍👩‍👧👩‍👩‍👧", 9, "👩‍👩‍👧…"),
        ("🇩🇪 🇫🇷🇮🇹", 6, "🇩🇪…"),
        ("word", 0, ""),
    ],
)
def test_a_text_is_cut_between_words_or_else_between_letters(
    text: str, longest: int, short: str
) -> None:
    assert shorten(text, longest) == short
