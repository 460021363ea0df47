"""Measure how well near-duplicates are separated from corrections, compared with plain cosine.

    .venv/bin/python bench/duplicates.py [--data DIRECTORY] [--split dev]

STS-B pairs with a human score of 4.8 and above should count as duplicates, pairs up to 4.0 should
not. STS-B has captions and headlines; the two lists in tests/memories/ have real memories.
"""

import argparse
import asyncio
import csv
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recollect.memories.dedupe.same_statement import DUPLICATE_FLOOR, is_same_statement
from recollect.models.builtin_embedder import open_builtin
from recollect.models.embedder import Embedder, Purpose

PROJECT = Path(__file__).resolve().parent.parent
SAME = 4.8
DIFFERENT = 4.0
BATCH = 64


@dataclass(frozen=True)
class Pair:
    """Two statements with their human score, cosine and likeness."""

    old: str
    new: str
    score: float
    cosine: float
    likeness: float


Rule = Callable[[Pair], bool]

RULES: dict[str, Rule] = {
    "our rule": lambda pair: is_same_statement(pair.old, pair.new, pair.likeness),
    "words alone": lambda pair: is_same_statement(pair.old, pair.new, 1.0),
    "likeness 0.9": lambda pair: pair.likeness >= DUPLICATE_FLOOR,
    "cosine 0.9": lambda pair: pair.cosine >= 0.9,
    "cosine 0.95": lambda pair: pair.cosine >= 0.95,
}


async def main() -> None:
    options = _options()
    embedder = await open_builtin(None, options.cache)
    try:
        rated = await _embedded(embedder, _rated(options))
        corrections = await _embedded(embedder, _listed("corrections.tsv"))
        rewordings = await _embedded(embedder, _listed("rewordings.tsv"))
    finally:
        await embedder.aclose()
    same = [pair for pair in rated if pair.score >= SAME]
    different = [pair for pair in rated if pair.score <= DIFFERENT]

    print(f"{'':42}" + "".join(f"{name:>14}" for name in RULES))
    _print_row(f"STS-B {SAME} and above, caught", same)
    _print_row(f"STS-B {DIFFERENT} and below, wrongly merged", different)
    _print_row("corrections swallowed", corrections)
    _print_row("rewordings caught", rewordings)
    _print_pairs("Merged by our rule though people scored them lower", different)
    _print_floor(rewordings)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="directory with stsb/; without it, only our own lists are used"
    )
    parser.add_argument("--split", choices=["dev", "train"], default="dev")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "recollect-bench"
    )
    return parser.parse_args()


def _rated(options: argparse.Namespace) -> list[tuple[str, str, float]]:
    if options.data is None:
        return []
    path: Path = options.data / "stsb" / f"en-{options.split}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [(one, other, float(score)) for one, other, score in csv.reader(file)]


def _listed(name: str) -> list[tuple[str, str, float]]:
    path = PROJECT / "tests" / "memories" / name
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["old"], row["new"], float("nan")) for row in rows]


async def _embedded(embedder: Embedder, rows: list[tuple[str, str, float]]) -> list[Pair]:
    texts = list(dict.fromkeys(text for old, new, _ in rows for text in (old, new)))
    vectors = {
        text: vector
        for start in range(0, len(texts), BATCH)
        for text, vector in zip(
            texts[start : start + BATCH],
            await embedder.embed(texts[start : start + BATCH], Purpose.PASSAGE),
            strict=True,
        )
    }
    cosines = [float(np.dot(vectors[old], vectors[new])) for old, new, _ in rows]
    return [
        Pair(*row, cosine, embedder.likeness(cosine))
        for row, cosine in zip(rows, cosines, strict=True)
    ]


def _print_row(label: str, pairs: list[Pair]) -> None:
    counts = [sum(map(rule, pairs)) for rule in RULES.values()]
    cells = (f"{count} ({count / max(len(pairs), 1):.1%})" for count in counts)
    print(f"{label + f', of {len(pairs)}':42}" + "".join(f"{cell:>14}" for cell in cells))


def _print_pairs(label: str, pairs: Iterable[Pair]) -> None:
    print(f"\n{label}:")
    for pair in filter(RULES["our rule"], pairs):
        print(f"  {pair.score:.2f}  {pair.likeness:.3f}  {pair.old}  |  {pair.new}")


def _print_floor(rewordings: list[Pair]) -> None:
    """Print the likeness of rewordings whose words agree; those below the floor are missed."""
    agreeing = [pair.likeness for pair in filter(RULES["words alone"], rewordings)]
    print("\nLikeness of the rewordings whose words agree, at the 1st, 5th, 10th, 50th percentile:")
    print("  " + "  ".join(f"{value:.3f}" for value in np.percentile(agreeing, [1, 5, 10, 50])))


if __name__ == "__main__":
    asyncio.run(main())
