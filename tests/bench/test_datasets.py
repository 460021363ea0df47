"""Reading the public datasets, with invented lines in their format."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.datasets import DataSet, Question, Unit, read


def write(path: Path, *lines: dict[str, Any]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def unit(name: str, scope: str = "s", time: str = "2026-01-01", **more: str) -> dict[str, Any]:
    session = name.partition("#")[0]
    line = {"scope": scope, "id": name, "session": session, "ts": time}
    return line | {"speaker": "Ada", "text": "Hello"} | more


def question(name: str, **more: Any) -> dict[str, Any]:
    line: dict[str, Any] = {"qid": name, "scope": "s", "text": "What?", "cat": "plain"}
    line |= {"date": "2026-02-01", "gold": [], "gold_sessions": [], "abstain": False, "answer": ""}
    return line | more


@pytest.fixture
def pool(tmp_path: Path) -> DataSet:
    write(
        tmp_path / "units.jsonl.gz",
        unit("one#0"),
        unit("one#1", speaker="memory"),
        unit("two#0", time="2026-01-02"),
        unit("one#0", scope="other"),
    )
    write(
        tmp_path / "queries.jsonl.gz",
        question("late", gold=["one#0", "two#0"], gold_sessions=["one", "two"]),
        question("early", gold=["one#0"], gold_sessions=["one"], upto=2),
        question(
            "user", gold=["two#0", "one#1"], gold_user=["two#0"], gold_sessions=["one", "two"]
        ),
        question("nothing to find"),
        question("nothing there", abstain=True),
    )
    return read("pool", tmp_path)


def by_id(pool: DataSet, name: str) -> Question:
    return next(each for each in pool.questions if each.id == name)


def test_content_starts_with_the_speaker_except_for_facts(pool: DataSet) -> None:
    assert [each.content for each in pool.units[:2]] == ["Ada: Hello", "Hello"]


def test_questions_without_evidence_are_skipped_unless_unanswerable(pool: DataSet) -> None:
    assert [each.id for each in pool.questions] == ["late", "early", "user", "nothing there"]


def test_a_question_sees_its_scope_up_to_its_own_time(pool: DataSet) -> None:
    assert [each.id for each in pool.visible(by_id(pool, "early"))] == ["one#0", "one#1"]
    assert [each.id for each in pool.visible(by_id(pool, "late"))] == ["one#0", "one#1", "two#0"]


def test_marked_user_evidence_replaces_the_other_evidence(pool: DataSet) -> None:
    found = by_id(pool, "user")

    assert (found.gold, found.gold_sessions) == ({"two#0"}, {"two"})


def test_questions_follow_the_units_they_may_see(pool: DataSet) -> None:
    moments = [
        (scope, stored, [each.id for each in asked]) for scope, stored, asked in pool.in_order()
    ]

    assert moments == [("s", 2, ["early"]), ("s", 3, ["late", "user", "nothing there"])]


def test_evidence_is_split_by_age(pool: DataSet) -> None:
    assert pool.evidence_by_age(by_id(pool, "late")) == ({"two#0"}, {"one#0"})


def test_units_keep_their_storage_order(pool: DataSet) -> None:
    assert pool.scopes["other"] == (Unit("other", "one#0", "one", "2026-01-01", "Ada", "Hello"),)
