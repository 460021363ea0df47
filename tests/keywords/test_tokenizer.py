import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.keywords.bm25 import Word
from recollect.keywords.tokenizer import (
    MAX_TERM_LENGTH,
    MAX_TERMS,
    QueryTerms,
    phrases,
    query_terms,
    spelling_variants,
    terms,
)

any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


def finds(query: str, text: str) -> bool:
    return not terms(text).keys().isdisjoint(query_terms(query).terms)


def test_terms_are_counted() -> None:
    found = terms("dark tea, Dark tea")

    assert found == {"dark": 2, "tea": 2}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("zurich", "Sie wohnt in Zürich"),
        ("Zürich", "she lives in zurich"),
        ("ZÜRICH", "zürich"),
        ("Zu\u0308rich", "Zürich"),
        ("Lodz", "Łódź"),
        ("strasse", "Straße"),
        ("smorrebrod", "smørrebrød"),
        ("cafe", "Le café est ouvert"),
        ("\uff46\uff55\uff4c\uff4c", "full width"),
        ("houses", "one house"),
        ("running", "she runs"),
        ("Haus", "Die Häuser der Stadt sind alt"),
        ("chevaux blancs", "le cheval blanc est dans le pré"),
        ("книга", "Книги лежат на столе"),
        ("δρόμοι", "δρόμος"),
        ("किताबें", "किताब"),
        ("كتاب", "كِتَاب"),
        ("٣٤", "room 34"),
        ("Ada", "Ada\u2019s tea"),
        ("dont", "I don't"),
        ("don\u2019t", "I don't"),
        ("eau", "l'eau"),
        ("email", "e-mail"),
        ("dark mode", "dark-mode"),
        ("1000", "costs 1,000 euros"),
        ("1,000,000", "1000000"),
        ("1.000", "1000"),
        ("3.14", "3,14"),
        ("東京", "私は東京都に住んでいます"),
        ("猫", "猫が好き"),
        ("한국", "한국어를 배워요"),
        ("ภาษา", "เรียนภาษาไทย"),
    ],
)
def test_a_query_finds_another_spelling_of_its_word(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ERR_4711", "err_4711"),
        ("ERR_4711", "4711"),
        ("ERR4711", "4711"),
        ("v2.3.1", "V2.3.1"),
        ("call foo_bar() now", "foo_bar"),
        ("call foo_bar() now", "bar"),
        ("user@example.com", "user@example.com"),
        ("user@example.com", "example"),
        ("CamelCaseName", "camelcasename"),
        ("CamelCaseName", "case"),
        ("HTMLParser", "parser"),
        ("2026-03-15", "2026-03-15"),
        ("2026-03-15", "2026"),
        ("/usr/local/bin", "/usr/local/bin"),
        ("/usr/local/bin", "local"),
        ("C++", "c++"),
        ("C#", "c#"),
    ],
)
def test_a_code_is_found_whole_and_in_parts(text: str, query: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [("v2.3.1", "v3.2.10"), ("C++", "C#"), ("京都", "東京"), ("1000", "1,500"), ("Oslo", "Bergen")],
)
def test_different_codes_and_words_have_different_whole_forms(query: str, text: str) -> None:
    assert query_terms(query).terms[0] not in terms(text)


@pytest.mark.parametrize("word", ["Gifts", "running", "universe", "Häuser", "maison", "casas"])
@pytest.mark.parametrize(
    "around", ["{}", "the {} of the house", "das {} und der Hund", "la {} de la ville est à nous"]
)
def test_an_exact_word_matches_whatever_language_is_detected(word: str, around: str) -> None:
    assert finds(word, around.format(word))


def test_function_words_are_dropped_from_a_query_with_other_words() -> None:
    found_terms = query_terms("What is the colour of my bikes?")

    words = (Word(("colour",)), Word(("bikes", "bike")))
    assert found_terms == QueryTerms(("colour", "bikes", "bike"), (), words)


def test_a_query_of_only_function_words_keeps_them() -> None:
    assert query_terms("The Who").terms == ("the", "who")


def test_a_negation_stays_in_the_query() -> None:
    assert query_terms("who is not in the team").terms == ("not", "team")


def test_a_long_question_keeps_all_its_words() -> None:
    numbers = [str(number) for number in range(MAX_TERMS)]

    assert query_terms(" ".join(numbers)).terms == tuple(numbers)


def test_a_pasted_text_is_queried_by_its_first_and_last_words() -> None:
    pasted = [str(number) for number in range(9_000)]

    found_terms = query_terms(" ".join(["cup", *pasted, "4000", "jug"]))

    half = MAX_TERMS // 2
    kept = ["cup", *pasted[: half - 1], *pasted[-half + 2 :], "4000", "jug"]
    assert found_terms.terms == tuple(kept)


def test_a_text_without_spaces_is_queried_by_both_ends() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(5_000))

    found_terms = query_terms(text)

    assert len(found_terms.words) == MAX_TERMS
    assert (found_terms.terms[0], found_terms.terms[-1]) == (text[:2], text[-2:])


def test_a_word_of_a_thousand_parts_is_queried_by_the_first_ones() -> None:
    chunk = "/".join(f"p{number}" for number in range(1_000))

    [word] = query_terms(chunk).words

    assert len(word.terms) <= MAX_TERMS
    assert word.forms[0] in terms(chunk)


def test_a_code_is_queried_as_a_whole_and_in_parts() -> None:
    [code] = query_terms("ERR_4711").words
    assert code == Word(("err_4711",), ("err", "4711"))
    [version] = query_terms("v2.3.1").words
    assert version.forms == ("v2.3.1", "2.3.1")
    [ordinal] = query_terms("8th").words
    assert ordinal.forms == ("8th", "8")


def test_time_words_are_marked_in_a_query() -> None:
    words = query_terms("What did I cook on Saturday?", {"on", "saturday"}).words
    assert [(word.forms[0], word.is_time_word) for word in words] == [
        ("cook", False),
        ("saturday", True),
    ]


@pytest.mark.parametrize(
    ("typed", "intended"),
    [
        ("mushroms", "mushrooms"),
        ("Kruangbin", "khruangbin"),
        ("hazlenuts", "hazelnuts"),
        ("passsport", "passport"),
        ("pasxport", "passport"),
        ("ngnix", "nginx"),
        ("Schroeder", "schroder"),
        ("привед", "привет"),
    ],
)
def test_a_typing_error_of_one_letter_has_the_intended_word_as_variant(
    typed: str, intended: str
) -> None:
    [word] = query_terms(typed).words
    assert intended in spelling_variants(word)
    assert not set(word.forms) & set(spelling_variants(word))


@pytest.mark.parametrize(("typed", "other"), [("horse", "house"), ("err_4711", "err_4712")])
def test_a_short_word_or_code_has_no_replaced_letter_variants(typed: str, other: str) -> None:
    [word] = query_terms(typed).words
    assert other not in spelling_variants(word)


@given(any_text)
def test_the_number_of_variants_is_bounded_for_any_text(text: str) -> None:
    assert all(len(spelling_variants(word)) < 2_000 for word in query_terms(text).words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('find "dark  mode" now', ("dark mode",)),
        ("find “dark mode”", ("dark mode",)),
        ("finde „dunkler Modus“", ("dunkler Modus",)),
        ("cherche « mode sombre »", ("mode sombre",)),
        ("「東京タワー」", ("東京タワー",)),
        ('one "word" only', ()),
        ('a 5" by 7" print', ()),
        ('an "unclosed quote', ()),
        ('"a b" and "a b" and "c d"', ("a b", "c d")),
    ],
)
def test_quoted_words_are_phrases(text: str, expected: tuple[str, ...]) -> None:
    assert phrases(text) == expected


def test_a_long_term_is_shortened_and_stays_distinct() -> None:
    (one,) = terms("x" * 50_000)
    (other,) = terms("x" * 49_999)

    assert len(one) == len(other) == MAX_TERM_LENGTH
    assert one != other


@given(any_text)
def test_terms_are_bounded_and_deterministic_for_any_text(text: str) -> None:
    found = terms(text)

    assert found == terms(text)
    assert all(0 < len(term) <= MAX_TERM_LENGTH and "\0" not in term for term in found)


@given(any_text, st.integers(1, 40))
def test_no_query_has_more_than_the_maximum_number_of_terms(text: str, times: int) -> None:
    repeated = " ".join(f"{text}{number}" for number in range(times))

    found_terms = query_terms(repeated)

    assert sum(len(word.terms) for word in found_terms.words) <= MAX_TERMS
    assert set(found_terms.terms) == {term for word in found_terms.words for term in word.terms}


@given(any_text)
def test_every_text_is_found_by_its_own_words(text: str) -> None:
    assert set(query_terms(text).terms) <= terms(text).keys()


@given(st.lists(st.sampled_from(["tea", "Häuser", "東京", "ERR_4711", "1,000"]), max_size=8))
def test_case_and_white_space_between_words_do_not_matter(words: list[str]) -> None:
    assert terms(" ".join(words)) == terms("\n\t ".join(words).lower())


@given(st.text(max_size=200))
def test_broken_unicode_is_not_an_error(text: str) -> None:
    query_terms(text)
    terms(text)
