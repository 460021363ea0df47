"""Read the public retrieval datasets: units to store, questions, and their evidence.

The README of the data directory describes format and protocol. No data is copied here.
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
    """One stored turn or fact; `id` is unique in its scope, except for RealMem's repeated facts."""

    scope: str
    id: str
    session: str
    time: str  # ISO 8601 as in the data; RealMem has only days
    speaker: str
    text: str

    @property
    def said_at(self) -> datetime:
        """The time as UTC."""
        return _time(self.time)

    @property
    def content(self) -> str:
        """The text to store: the speaker is part of it, but a fact has no speaker."""
        return self.text if self.speaker == "memory" else f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its scope and time, and its evidence."""

    id: str
    scope: str
    text: str
    category: str
    time: str
    gold: frozenset[str]  # ids of units; empty if only sessions are marked
    gold_sessions: frozenset[str]
    is_unanswerable: bool
    upto: int | None  # asked after this many units of its scope; None: after the last

    @property
    def asked_at(self) -> datetime:
        """The time as UTC."""
        return _time(self.time)


@dataclass(frozen=True)
class DataSet:
    """Units in storage order, and questions."""

    name: str
    units: tuple[Unit, ...]
    questions: tuple[Question, ...]

    @cached_property
    def scopes(self) -> dict[str, tuple[Unit, ...]]:
        """Return each scope's units in storage order; a question sees only its own scope."""
        scopes: dict[str, list[Unit]] = {}
        for unit in self.units:
            scopes.setdefault(unit.scope, []).append(unit)
        return {scope: tuple(units) for scope, units in scopes.items()}

    def visible(self, question: Question) -> tuple[Unit, ...]:
        """Return the units stored when the question is asked."""
        return self.scopes[question.scope][: question.upto]

    def in_order(self) -> Iterator[tuple[str, int, list[Question]]]:
        """Yield, by scope, the number of stored units and the questions to ask at that point."""

        def position(question: Question) -> tuple[str, int]:
            return question.scope, len(self.visible(question))

        for (scope, stored), asked in groupby(sorted(self.questions, key=position), key=position):
            yield scope, stored, list(asked)

    def evidence_by_age(self, question: Question) -> tuple[frozenset[str], frozenset[str]]:
        """Return the newest of the question's gold units, and all older ones."""
        times = {unit.id: unit.time for unit in self.visible(question) if unit.id in question.gold}
        latest = max(times.values(), default="")
        newest = frozenset(name for name, time in times.items() if time == latest)
        return newest, question.gold - newest


def read_all(data: Path) -> list[DataSet]:
    """Read the four retrieval datasets."""
    return [
        read("locomo", data / "locomo"),
        read("longmemeval-pool", data / "longmemeval-pool"),
        read("realmem-facts", data / "realmem" / "facts"),
        read("realmem-turns", data / "realmem" / "turns"),
    ]


def read(name: str, folder: Path) -> DataSet:
    """Read one dataset with the questions that the protocol uses."""
    units = tuple(_unit(line) for line in _lines(folder / "units.jsonl.gz"))
    questions = (_question(line) for line in _lines(folder / "queries.jsonl.gz"))
    return DataSet(name, units, tuple(each for each in questions if _is_used(each)))


def _time(text: str) -> datetime:
    """Parse a time; the data has no time zone, so use UTC."""
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
        # LongMemEval: the evidence is the user's turns and their sessions.
        gold=frozenset(line["gold"] if by_user is None else by_user),
        gold_sessions=frozenset(
            line["gold_sessions"]
            if by_user is None
            else (unit.rpartition("#")[0] for unit in by_user)
        ),
        is_unanswerable=line["abstain"],
        upto=line.get("upto"),
    )


def _is_used(question: Question) -> bool:
    """Return whether there is evidence to find, or the question is meant to be unanswerable."""
    return bool(question.gold or question.gold_sessions or question.is_unanswerable)
