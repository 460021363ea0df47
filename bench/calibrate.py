"""Fit the built-in embedder's two maps on public pairs and print constants and checks.

    .venv/bin/python bench/calibrate.py --data DIRECTORY

`docs/calibration.md` explains the rules. The data stays where it is. Vectors are cached outside the
project, so that a second run takes seconds instead of minutes.
"""

import argparse
import asyncio
import csv
import gzip
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.models import calibration
from recollect.models.builtin_embedder import open_builtin
from recollect.models.calibration import Anchors, interpolate
from recollect.models.embedder import Embedder, Purpose

Floats = NDArray[np.float32]

SEED = 7
POOL_DISTRACTORS = 1_500  # of the pool's 9,948 turns, plus all evidence: two minutes, not ten
IDENTICAL = 150  # texts of each dataset, embedded both as question and as passage
NEAR_SAME = 300  # pairs scored 4.5 and above, with one side embedded as a question
HAYSTACK = 1_000


@dataclass(frozen=True)
class QuestionSet:
    """Questions, passages, and the visible passages that contain each question's evidence."""

    name: str
    questions: Floats
    passages: Floats
    identical: Floats  # cosines of a text as question with itself as passage
    visible: list[NDArray[np.intp]]
    gold: list[list[int]]
    abstains: list[bool]


@dataclass(frozen=True)
class ScoredPairs:
    """Cosines of sentence pairs, and the scores from 0 to 5 that people gave them."""

    cosines: Floats
    scores: Floats
    shuffled: Floats  # cosines of sentences that were never paired


@dataclass(frozen=True)
class Cosines:
    """The cosines of one dataset on which the relevance map is fitted."""

    relevant: Floats
    foreign: Floats  # questions of this set with passages of the others
    best_foreign: Floats  # the best of a haystack of such passages, per question
    identical: Floats


class Cache:
    """Cached vectors by text and purpose."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    async def vectors(self, texts: Sequence[str], purpose: Purpose) -> Floats:
        """Return the vectors from the cache, or compute and cache them."""
        made_from = [self._embedder.identity.model, calibration.EVERYDAY, purpose, *texts]
        name = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:24]
        path = self._folder / f"{name}.npy"
        if not path.exists():
            np.save(path, np.array(await self._embedder.embed(texts, purpose)))
        return np.load(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the built-in embedder's maps.")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="directory of the public datasets: locomo/, longmemeval-pool/, realmem/, stsb/",
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "recollect-calibrate"
    )
    args = parser.parse_args()
    asyncio.run(calibrate(args.data, args.cache))


async def calibrate(data: Path, folder: Path) -> None:
    embedder = await open_builtin(None, folder)
    cache = Cache(embedder, folder)
    sets = [
        await read_questions(cache, data / "locomo"),
        await read_questions(cache, data / "realmem/facts"),
        await read_questions(cache, data / "longmemeval-pool"),
    ]
    train = await read_pairs(cache, data / "stsb/en-train.csv")
    dev = await read_pairs(cache, data / "stsb/en-dev.csv")
    near_same = await read_near_same(cache, data / "stsb/en-train.csv")
    await embedder.aclose()

    cosines = {each.name: relevance_cosines(each, sets) for each in sets}
    print_retrieval(sets)
    print_relevance(cosines, near_same)
    print_likeness(train, dev)


# Fitting: each anchor is a quantile with a simple meaning.


def fit_relevance(sets: Sequence[Cosines], near_same: Floats) -> Anchors:
    """Take each dataset's quantile and use their median, so that no dataset dominates."""

    def middle(values: Sequence[np.floating[Any]]) -> float:
        return round(float(np.median(values)), 2)

    return (
        (middle([np.percentile(each.foreign, 1) for each in sets]), 0.0),
        (middle([np.percentile(each.foreign, 99) for each in sets]), 0.5),
        (middle([np.percentile(each.relevant, 50) for each in sets]), 0.75),
        (middle([np.median(near_same)]), 0.9),
        (middle([np.percentile(each.identical, 10) for each in sets]), 1.0),
    )


def fit_likeness(pairs: ScoredPairs) -> Anchors:
    """Use the median cosine of each score band, and the best threshold for "the same"."""

    def median(low: float, high: float) -> float:
        chosen = (pairs.scores >= low) & (pairs.scores <= high)
        return round(float(np.median(pairs.cosines[chosen])), 2)

    return (
        (round(float(np.percentile(pairs.shuffled, 5)), 2), 0.0),
        (median(1.5, 2.5), 0.5),
        (median(2.5, 3.0), 0.6),
        (best_threshold(pairs), 0.9),
        (0.999, 1.0),  # not 1: with half floats, a text's cosine with itself is about 0.999
    )


def best_threshold(pairs: ScoredPairs) -> float:
    """Return the cosine that best separates pairs scored 4.5 and above from 4 and below."""
    same, other = pairs.cosines[pairs.scores >= 4.5], pairs.cosines[pairs.scores <= 4.0]
    cuts = np.arange(0.5, 1.0, 0.01)
    gains = [np.mean(same >= cut) - np.mean(other >= cut) for cut in cuts]
    return round(float(cuts[int(np.argmax(gains))]), 2)


def relevance_cosines(own: QuestionSet, sets: Sequence[QuestionSet]) -> Cosines:
    dice = np.random.default_rng(SEED)
    foreign: list[Floats] = []
    best: list[Floats] = []
    for other in sets:
        if other is own:
            continue
        chosen = dice.choice(len(other.passages), HAYSTACK, replace=False)
        cosines = own.questions @ other.passages[chosen].T
        foreign.append(cosines.ravel())
        best.append(cosines.max(axis=1))
    relevant = [
        own.questions[number] @ own.passages[gold].T
        for number, gold in enumerate(own.gold)
        if gold and not own.abstains[number]
    ]
    return Cosines(
        relevant=np.concatenate(relevant),
        foreign=np.concatenate(foreign),
        best_foreign=np.concatenate(best),
        identical=own.identical,
    )


# Reading.


async def read_questions(cache: Cache, folder: Path) -> QuestionSet:
    """Read one dataset; a question sees its own scope, up to the point where it is asked."""
    questions = read_lines(folder / "queries.jsonl.gz")
    units = thin_out(read_lines(folder / "units.jsonl.gz"), questions)
    texts = [with_speaker(unit) for unit in units]
    passages = await cache.vectors(texts, Purpose.PASSAGE)
    sample = np.random.default_rng(SEED).choice(len(units), IDENTICAL, replace=False)
    as_questions = await cache.vectors([texts[int(number)] for number in sample], Purpose.QUERY)
    scopes: dict[str, list[int]] = {}
    numbers: dict[tuple[str, str], int] = {}
    for number, unit in enumerate(units):
        scopes.setdefault(unit["scope"], []).append(number)
        numbers[unit["scope"], unit["id"]] = number
    return QuestionSet(
        name=folder.name,
        questions=await cache.vectors([each["text"] for each in questions], Purpose.QUERY),
        passages=passages,
        identical=np.sum(as_questions * passages[sample], axis=1),
        visible=[np.array(scopes[each["scope"]][: each.get("upto")]) for each in questions],
        gold=[[numbers[each["scope"], unit] for unit in evidence(each)] for each in questions],
        abstains=[each["abstain"] for each in questions],
    )


def thin_out(units: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a large pool without most of the turns that no question needs."""
    needed = {unit for each in questions for unit in evidence(each)}
    if len(units) < 5_000:
        return units
    rest = [n for n, unit in enumerate(units) if unit["id"] not in needed]
    distractors = set(
        np.random.default_rng(SEED).choice(rest, POOL_DISTRACTORS, replace=False).tolist()
    )
    return [unit for n, unit in enumerate(units) if unit["id"] in needed or n in distractors]


def evidence(question: dict[str, Any]) -> list[str]:
    return question.get("gold_user", question["gold"])


def with_speaker(unit: dict[str, Any]) -> str:
    return unit["text"] if unit["speaker"] == "memory" else f"{unit['speaker']}: {unit['text']}"


def read_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_scored(path: Path) -> list[tuple[str, str, float]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return [(left, right, float(score)) for left, right, score in csv.reader(lines)]


async def read_pairs(cache: Cache, path: Path) -> ScoredPairs:
    rows = read_scored(path)
    left = await cache.vectors([row[0] for row in rows], Purpose.PASSAGE)
    right = await cache.vectors([row[1] for row in rows], Purpose.PASSAGE)
    shuffled = np.random.default_rng(SEED).permutation(right)
    return ScoredPairs(
        cosines=np.sum(left * right, axis=1),
        scores=np.array([row[2] for row in rows], dtype=np.float32),
        shuffled=np.sum(left * shuffled, axis=1),
    )


async def read_near_same(cache: Cache, path: Path) -> Floats:
    """Return cosines of question vectors with passages that say nearly the same."""
    rows = [row for row in read_scored(path) if row[2] >= 4.5][:NEAR_SAME]
    left = await cache.vectors([row[0] for row in rows], Purpose.QUERY)
    right = await cache.vectors([row[1] for row in rows], Purpose.PASSAGE)
    return np.sum(left * right, axis=1)


# Printing, as tables for the document.


def print_retrieval(sets: Sequence[QuestionSet]) -> None:
    print("| set | questions | recall@10 | abstention AUROC |\n|---|---|---|---|")
    for each in sets:
        found: list[float] = []
        best: tuple[list[float], list[float]] = ([], [])
        for number, (visible, gold) in enumerate(zip(each.visible, each.gold, strict=True)):
            scores = each.passages[visible] @ each.questions[number]
            best[each.abstains[number]].append(float(scores.max()))
            if gold and not each.abstains[number]:
                first = visible[np.argsort(-scores, kind="stable")[:10]]
                found.append(len(set(gold) & set(first.tolist())) / len(set(gold)))
        apart = f"{auroc(*best):.3f}" if best[1] else "-"
        print(f"| {each.name} | {len(found)} | {np.mean(found):.3f} | {apart} |")


def print_relevance(cosines: dict[str, Cosines], near_same: Floats) -> None:
    print(f"\nRELEVANCE = {fit_relevance(list(cosines.values()), near_same)}\n")
    print(
        "| set | fitted on | evidence >= 0.6 | evidence >= 0.7 | unrelated >= 0.5 "
        "| best of 1,000 unrelated >= 0.6 | >= 0.7 | >= 0.8 |\n|---|---|---|---|---|---|---|---|"
    )
    for name, own in cosines.items():
        others = [each for other, each in cosines.items() if other != name]
        fits = {
            "all": fit_relevance(list(cosines.values()), near_same),
            "the other two": fit_relevance(others, near_same),
        }
        for label, anchors in fits.items():
            shares = [
                share(anchors, own.relevant, 0.6),
                share(anchors, own.relevant, 0.7),
                share(anchors, own.foreign, 0.5),
                share(anchors, own.best_foreign, 0.6),
                share(anchors, own.best_foreign, 0.7),
                share(anchors, own.best_foreign, 0.8),
            ]
            print(f"| {name} | {label} | " + " | ".join(shares) + " |")


def print_likeness(train: ScoredPairs, dev: ScoredPairs) -> None:
    anchors = fit_likeness(train)
    print(f"\nLIKENESS = {anchors}\n")
    for name, pairs in (("train", train), ("dev", dev)):
        correlation = np.corrcoef(pairs.cosines, pairs.scores)[0, 1]
        print(f"{name}: Pearson {correlation:.3f}")
    print("\n| human score | pairs | median shown | >= 0.85 | >= 0.9 |\n|---|---|---|---|---|")
    for low, high in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 4.5), (4.5, 5.1)):
        chosen = dev.cosines[(dev.scores >= low) & (dev.scores < high)]
        print_shares(f"{low} to {min(high, 5)}", anchors, chosen)
    print_shares("never paired", anchors, dev.shuffled)


def print_shares(label: str, anchors: Anchors, cosines: Floats) -> None:
    middle = interpolate(anchors, float(np.median(cosines)))
    shares = f"{share(anchors, cosines, 0.85)} | {share(anchors, cosines, 0.9)}"
    print(f"| {label} | {len(cosines)} | {middle:.2f} | {shares} |")


def share(anchors: Anchors, cosines: Floats, floor: float) -> str:
    """Return the share of the cosines that map to `floor` or more."""
    mapped = np.interp(cosines, [at for at, _ in anchors], [score for _, score in anchors])
    return f"{np.mean(mapped >= floor):.1%}"


def auroc(higher: list[float], lower: list[float]) -> float:
    """Return how often a value of the first list is above one of the second."""
    return float(np.mean(np.array(higher)[:, None] > np.array(lower)[None, :]))


if __name__ == "__main__":
    main()
