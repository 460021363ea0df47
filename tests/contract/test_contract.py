"""Every statement has a test and every number in a test's name has a statement."""

from tests.contract.statements import (
    Statement,
    numbered_tests,
    numbers_in,
    problems,
    statements,
)


def test_every_number_has_one_statement_and_a_test() -> None:
    assert problems(statements(), numbered_tests()) == []


def test_every_statement_is_one_sentence_of_its_own() -> None:
    texts = [statement.text for statement in statements()]

    assert [text for text in texts if not text.endswith(".") or "\n" in text] == []
    assert len(texts) == len(set(texts))


def test_each_kind_of_mismatch_is_found() -> None:
    listed = [
        Statement("R001", "engine", "Proved."),
        Statement("R002", "engine", "Without a test."),
        Statement("R003", "engine", "One of two."),
        Statement("R003", "openai", "Two of two."),
        Statement("R4", "engine", "Too short."),
    ]
    tests = {number: ["tests/test_a.py::test_a"] for number in ["R001", "R003", "R4", "R005"]}

    assert problems(listed, tests) == [
        "R4: is not a number",
        "R003: has 2 statements",
        "R002: has no test",
        "R005: has no statement: tests/test_a.py::test_a",
    ]


def test_numbers_are_read_from_the_name_of_a_test() -> None:
    assert numbers_in("test_R017_a_duplicate_is_skipped") == ["R017"]
    assert numbers_in("test_N01_S07_S100") == ["N01", "S07", "S100"]
    assert numbers_in("test_R17_a_misspelt_number_is_read_too") == ["R17"]
    assert numbers_in("test_above_0_9_there_is_no_number") == []
    assert numbers_in("a_helper_for_R017_is_no_test") == []
