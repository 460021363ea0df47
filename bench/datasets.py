"""The public retrieval sets, read where they lie: units to store, questions, and their evidence.

The format and the protocol are the data folder's README; nothing is copied into this project.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Unit:
    """One stored turn or fact; `id` is unique in its scope but for RealMem's repeated facts."""

    scope: str
    id: str
    session: str
    time: str  # ISO 8601, as given: RealMem knows the day alone
    speaker: str
    text: str

    @property
    def said_at(self) -> datetime:
        """Its time."""
        return _time(self.time)

    @property
    def content(self) -> str:
        """What is stored: who spoke belongs to the text, but a fact has no speaker."""
        return self.text if self.speaker == "memory" else f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, where it is asked and what would answer it."""

    id: str
    scope: str
    text: str
    category: str
    time: str
    gold: frozenset[str]  # ids of units; empty where only sessions are marked
    gold_sessions: frozenset[str]
    is_unanswerable: bool
    upto: int | None  # asked when so many units of its scope are stored; None: after the last

    @property
    def asked_at(self) -> datetime:
        """Its time."""
        return _time(self.time)


@dataclass(frozen=True)
class DataSet:
    """Units in storage order, and questions."""

    name: str
    units: tuple[Unit, ...]
    questions: tuple[Question, ...]

    @cached_property
    def scopes(self) -> dict[str, tuple[Unit, ...]]:
        """Each scope's units, in storage order; a question sees those of its own."""
        scopes: dict[str, list[Unit]] = {}
        for unit in self.units:
            scopes.setdefault(unit.scope, []).append(unit)
        return {scope: tuple(units) for scope, units in scopes.items()}

    def visible(self, question: Question) -> tuple[Unit, ...]:
        """What is stored when the question is asked."""
        return self.scopes[question.scope][: question.upto]

    def in_order(self) -> Iterator[tuple[str, int, list[Question]]]:
        """Scope by scope, how many units to have stored and the questions to ask then."""

        def moment(question: Question) -> tuple[str, int]:
            return question.scope, len(self.visible(question))

        for (scope, stored), asked in groupby(sorted(self.questions, key=moment), key=moment):
            yield scope, stored, list(asked)

    def evidence_by_age(self, question: Question) -> tuple[frozenset[str], frozenset[str]]:
        """The newest of the question's gold units and all older ones."""
        times = {unit.id: unit.time for unit in self.visible(question) if unit.id in question.gold}
        latest = max(times.values(), default="")
        newest = frozenset(name for name, time in times.items() if time == latest)
        return newest, question.gold - newest


def read_all(data: Path) -> list[DataSet]:
    """The four retrieval sets."""
    return [
        read("locomo", data / "locomo"),
        read("longmemeval-pool", data / "longmemeval-pool"),
        read("realmem-facts", data / "realmem" / "facts"),
        read("realmem-turns", data / "realmem" / "turns"),
    ]


def read(name: str, folder: Path) -> DataSet:
    """One set, with the questions that the protocol asks."""
    units = tuple(_unit(line) for line in _lines(folder / "units.jsonl.gz"))
    questions = (_question(line) for line in _lines(folder / "queries.jsonl.gz"))
    return DataSet(name, units, tuple(each for each in questions if _is_asked(each)))


def _time(text: str) -> datetime:
    """No zone is given, so it is UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _unit(line: dict[str, Any]) -> Unit:
    return Unit(
        line["scope"], line["id"], line["session"], line["ts"], line["speaker"], line["text"]
    )


def _question(line: dict[str, Any]) -> Question:
    by_user = line.get("gold_user")
    return Question(
        id=line["qid"],
        scope=line["scope"],
        text=line["text"],
        category=line["cat"],
        time=line["date"],
        # LongMemEval: evidence is what the user said, and the sessions where it was said.
        gold=frozenset(line["gold"] if by_user is None else by_user),
        gold_sessions=frozenset(
            line["gold_sessions"]
            if by_user is None
            else (unit.rpartition("#")[0] for unit in by_user)
        ),
        is_unanswerable=line["abstain"],
        upto=line.get("upto"),
    )


def _is_asked(question: Question) -> bool:
    """Without evidence there is nothing to find, unless that is the point of the question."""
    return bool(question.gold or question.gold_sessions or question.is_unanswerable)
