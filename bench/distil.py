"""Measure how well the local distiller selects messages, on RealMem, compared with simple rules.

    .venv/bin/python -m bench.distil --data DIR [--show 20]

DIR contains `realmem/salience.jsonl.gz`. A user message is selected if at least one memory would be
made from it. Precision, recall, F1 and F0.5 are relative to the messages that human readers marked
as worth a memory. *Junk* is the share of messages selected in conversations without any memory:
homework, translations, stories. The simple rules: every message; messages with a first-person
word.
"""

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from recollect.learning.rules import distil_statements

# The project of conversations from other sources, which contain no memories.
_OTHER_SOURCES = "Enhanced"
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|mine)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of a user, and how the readers marked it."""

    persona: str
    text: str
    at: datetime
    has_memory: bool
    is_other_source: bool


@dataclass(frozen=True, slots=True)
class DistillerScore:
    """One row of the table."""

    precision: float
    recall: float
    junk: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return self._mean(1.0)

    @property
    def f05(self) -> float:
        """The same with precision weighted twice: junk in the memory affects every later answer."""
        return self._mean(0.5)

    def _mean(self, beta: float) -> float:
        both = beta**2 * self.precision + self.recall
        return (1 + beta**2) * self.precision * self.recall / both if both else 0.0


Rule = Callable[[UserMessage], bool]
RULES: dict[str, Rule] = {
    "every message": lambda _: True,
    "first-person words": lambda message: bool(_FIRST_PERSON.search(message.text)),
    "ours": lambda message: bool(distil_statements(message.text, message.at)),
}


def read(data: Path) -> list[UserMessage]:
    """Every message of every user."""
    found: list[UserMessage] = []
    with gzip.open(data / "realmem" / "salience.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            conversation: dict[str, Any] = json.loads(line)
            marked = set(conversation["memory_turns"])
            at = datetime.fromisoformat(conversation["ts"]).replace(tzinfo=UTC)
            found += [
                UserMessage(
                    conversation["scope"],
                    text,
                    at,
                    number in marked,
                    conversation["project"] == _OTHER_SOURCES,
                )
                for number, (speaker, text) in enumerate(conversation["turns"])
                if speaker == "User"
            ]
    return found


def scored(messages: Sequence[UserMessage], rule: Rule) -> DistillerScore:
    """Compare a rule's selection with the readers' marks."""
    selected = [rule(each) for each in messages]
    right = sum(k and each.has_memory for k, each in zip(selected, messages, strict=True))
    other_source = [k for k, each in zip(selected, messages, strict=True) if each.is_other_source]
    return DistillerScore(
        precision=right / max(sum(selected), 1),
        recall=right / max(sum(each.has_memory for each in messages), 1),
        junk=sum(other_source) / max(len(other_source), 1),
    )


def _row(name: str, found: DistillerScore) -> str:
    return (
        f"{name:<22}{found.precision:>10.3f}{found.recall:>8.3f}{found.f1:>8.3f}{found.f05:>8.3f}"
        f"{found.junk:>8.3f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the public datasets")
    parser.add_argument("--show", type=int, default=0, help="print this many random memories")
    args = parser.parse_args()
    messages = read(args.data)
    worth = sum(each.has_memory for each in messages)
    print(f"{len(messages)} messages, {worth} are worth a memory\n")
    print(f"{'':<22}{'precision':>10}{'recall':>8}{'F1':>8}{'F0.5':>8}{'junk':>8}")
    for name, rule in RULES.items():
        print(_row(name, scored(messages, rule)))
    personas = defaultdict[str, list[UserMessage]](list)
    for each in messages:
        personas[each.persona].append(each)
    print("\nours by persona")
    for persona, own in sorted(personas.items()):
        print(_row(persona, scored(own, RULES["ours"])))
    began = perf_counter()
    made = [candidate for each in messages for candidate in distil_statements(each.text, each.at)]
    took = perf_counter() - began
    print(f"\n{len(made)} memories, {took / len(messages) * 1e6:.0f} µs per message")
    for candidate in random.Random(0).sample(made, min(args.show, len(made))):
        print(f"  {candidate.category:<12}{candidate.content}")


if __name__ == "__main__":
    main()
