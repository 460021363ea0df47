"""How well the local distiller tells what is worth remembering, on RealMem, beside plain rules.

    .venv/bin/python -m bench.distil --data DIR [--show 20]

DIR holds `realmem/salience.jsonl.gz`. Each message of a user is kept or passed over; kept is a
message from which at least one memory would be made. Precision, recall, F1 and F0.5 against the
messages that readers marked as carrying a memory. *Junk* is the share of messages kept in the
conversations that carry none at all: homework, translations, stories. The rules beside ours: every
message; those with a first-person word in them.
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

from recollect.engine.distiller import distilled

# Conversations from elsewhere, mixed in.
_OTHERS = "Enhanced"
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|mine)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a user, and what readers say of it."""

    persona: str
    text: str
    at: datetime
    is_worth_it: bool
    is_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Scored:
    """One row of the table."""

    precision: float
    recall: float
    junk: float

    @property
    def f1(self) -> float:
        """Both in one number."""
        return self._mean(1.0)

    @property
    def f05(self) -> float:
        """Both, precision counting twice: what is junk in a memory comes back in every answer."""
        return self._mean(0.5)

    def _mean(self, beta: float) -> float:
        both = beta**2 * self.precision + self.recall
        return (1 + beta**2) * self.precision * self.recall / both if both else 0.0


Rule = Callable[[Said], bool]
RULES: dict[str, Rule] = {
    "every message": lambda _: True,
    "first-person words": lambda said: bool(_FIRST_PERSON.search(said.text)),
    "ours": lambda said: bool(distilled(said.text, said.at)),
}


def read(data: Path) -> list[Said]:
    """Every message of every user."""
    found: list[Said] = []
    with gzip.open(data / "realmem" / "salience.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            told: dict[str, Any] = json.loads(line)
            marked = set(told["memory_turns"])
            at = datetime.fromisoformat(told["ts"]).replace(tzinfo=UTC)
            found += [
                Said(told["scope"], text, at, number in marked, told["project"] == _OTHERS)
                for number, (speaker, text) in enumerate(told["turns"])
                if speaker == "User"
            ]
    return found


def scored(said: Sequence[Said], rule: Rule) -> Scored:
    """How well a rule tells them apart."""
    kept = [rule(each) for each in said]
    right = sum(k and each.is_worth_it for k, each in zip(kept, said, strict=True))
    elsewhere = [k for k, each in zip(kept, said, strict=True) if each.is_elsewhere]
    return Scored(
        precision=right / max(sum(kept), 1),
        recall=right / max(sum(each.is_worth_it for each in said), 1),
        junk=sum(elsewhere) / max(len(elsewhere), 1),
    )


def _row(name: str, found: Scored) -> str:
    return (
        f"{name:<22}{found.precision:>10.3f}{found.recall:>8.3f}{found.f1:>8.3f}{found.f05:>8.3f}"
        f"{found.junk:>8.3f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public sets")
    parser.add_argument("--show", type=int, default=0, help="print so many memories, at random")
    asked = parser.parse_args()
    said = read(asked.data)
    print(f"{len(said)} messages, {sum(each.is_worth_it for each in said)} carry a memory\n")
    print(f"{'':<22}{'precision':>10}{'recall':>8}{'F1':>8}{'F0.5':>8}{'junk':>8}")
    for name, rule in RULES.items():
        print(_row(name, scored(said, rule)))
    personas = defaultdict[str, list[Said]](list)
    for each in said:
        personas[each.persona].append(each)
    print("\nours by persona")
    for persona, own in sorted(personas.items()):
        print(_row(persona, scored(own, RULES["ours"])))
    began = perf_counter()
    made = [candidate for each in said for candidate in distilled(each.text, each.at)]
    took = perf_counter() - began
    print(f"\n{len(made)} memories, {took / len(said) * 1e6:.0f} µs a message")
    for candidate in random.Random(0).sample(made, min(asked.show, len(made))):
        print(f"  {candidate.category:<12}{candidate.content}")


if __name__ == "__main__":
    main()
