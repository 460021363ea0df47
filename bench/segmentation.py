"""Measure segmentation quality on TIAGE, compared with lexical and embedding TextTiling.

    .venv/bin/python -m bench.segmentation --data DIR

DIR contains `tiage/tiage.json`. Pk and WindowDiff (lower is better) use k = half the mean reference
segment of each dialogue; F1 of boundaries over all dialogues; Score = (2 F1 + 1-Pk + 1-WD) / 4.
The baselines look ahead, as published; ours decides at each message from the earlier messages.
"""

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from recollect.conversations.segmentation.boundaries import SegmenterMessage, segment_ends
from recollect.core.domain import SegmentRules
from recollect.models.builtin_embedder import open_builtin
from recollect.models.calibration import likeness
from recollect.models.embedder import Purpose, Vector

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# The number of messages on each side of a gap that TextTiling compares.
BLOCK = 2


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The messages with their vectors, and where readers marked the end of a segment."""

    texts: list[str]
    vectors: list[Vector]
    ends: set[int]
    segments: int


@dataclass(frozen=True, slots=True)
class SegmenterScore:
    """One row of the table."""

    pk: float
    window_diff: float
    f1: float
    density: float

    @property
    def score(self) -> float:
        """All metrics in one number."""
        return (2 * self.f1 + 1 - self.pk + 1 - self.window_diff) / 4


Segmenter = Callable[[Dialogue], set[int]]


def ours(dialogue: Dialogue) -> set[int]:
    heard = [
        SegmenterMessage(text, "ab"[number % 2], NOW, vector)
        for number, (text, vector) in enumerate(zip(dialogue.texts, dialogue.vectors, strict=True))
    ]
    ends: set[int] = set()
    at = 0
    for cut in segment_ends(heard, SegmentRules(), likeness):
        at += cut.length
        ends.add(at - 1)
    return ends - {len(heard) - 1}


def lexical(dialogue: Dialogue) -> set[int]:
    bags = [Counter(re.findall(r"\w+", text.lower())) for text in dialogue.texts]

    def similarity(left: Sequence[Counter[str]], right: Sequence[Counter[str]]) -> float:
        one, other = sum(left, Counter[str]()), sum(right, Counter[str]())
        dot = sum(count * other[word] for word, count in one.items())
        norm = _norm(one) * _norm(other)
        return dot / norm if norm else 0.0

    return _tiles([similarity(*_sides(bags, gap)) for gap in range(len(bags) - 1)])


def by_embedding(dialogue: Dialogue) -> set[int]:
    def similarity(left: Sequence[Vector], right: Sequence[Vector]) -> float:
        one, other = np.mean(left, axis=0), np.mean(right, axis=0)
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))

    gaps = range(len(dialogue.vectors) - 1)
    return _tiles([similarity(*_sides(dialogue.vectors, gap)) for gap in gaps])


def _norm(bag: Counter[str]) -> float:
    return float(np.sqrt(sum(count * count for count in bag.values())))


def _sides(items: Sequence[Any], gap: int) -> tuple[Sequence[Any], Sequence[Any]]:
    return items[max(0, gap - BLOCK + 1) : gap + 1], items[gap + 1 : gap + 1 + BLOCK]


def _tiles(likenesses: Sequence[float]) -> set[int]:
    """A boundary is a valley deeper than the mean plus half a standard deviation.

    The paper's other choice, minus half a standard deviation, scores worse: too many boundaries.
    """
    depths = [_depth(likenesses, gap) for gap in range(len(likenesses))]
    floor = float(np.mean(depths) + np.std(depths) / 2) if depths else 0.0
    return {gap for gap, depth in enumerate(depths) if depth > floor}


def _depth(likenesses: Sequence[float], gap: int) -> float:
    here = likenesses[gap]
    depth = 0.0
    for step in (-1, 1):
        peak, at = here, gap + step
        while 0 <= at < len(likenesses) and likenesses[at] >= peak:
            peak, at = likenesses[at], at + step
        depth += peak - here
    return depth


def score(dialogues: Sequence[Dialogue], segmenter: Segmenter) -> SegmenterScore:
    pks: list[float] = []
    diffs: list[float] = []
    right = predicted = true = gaps = 0
    for each in dialogues:
        found = segmenter(each)
        count = len(each.texts)
        window = max(1, round(count / each.segments / 2))
        wrong_pk = wrong_diff = 0
        positions = range(count - window)
        for at in positions:
            real = sum(end in each.ends for end in range(at, at + window))
            ours_ = sum(end in found for end in range(at, at + window))
            wrong_pk += (real > 0) != (ours_ > 0)
            wrong_diff += real != ours_
        pks.append(wrong_pk / max(1, len(positions)))
        diffs.append(wrong_diff / max(1, len(positions)))
        right += len(found & each.ends)
        predicted += len(found)
        true += len(each.ends)
        gaps += count - 1
    return SegmenterScore(
        float(np.mean(pks)),
        float(np.mean(diffs)),
        2 * right / max(1, predicted + true),
        predicted / gaps,
    )


async def embedded(dialogues: Sequence[Any], cache: Path) -> dict[str, list[Dialogue]]:
    embedder = await open_builtin(None, cache)
    found: dict[str, list[Dialogue]] = {}
    for each in dialogues:
        vectors = await embedder.embed(each["utterances"], Purpose.PASSAGE)
        ends = set((np.cumsum(each["segments"])[:-1] - 1).tolist())
        dialogue = Dialogue(each["utterances"], vectors, ends, len(each["segments"]))
        found.setdefault(each.get("set", "all"), []).append(dialogue)
    await embedder.aclose()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="directory with tiage/tiage.json")
    path: Path = parser.parse_args().data / "tiage" / "tiage.json"
    with tempfile.TemporaryDirectory() as cache:
        sets = asyncio.run(embedded(json.loads(path.read_text("utf-8")), Path(cache)))
    methods: dict[str, Segmenter] = {
        "lexical TextTiling": lexical,
        "embedding TextTiling": by_embedding,
        "ours, online": ours,
    }
    print("| set | method | Pk | WindowDiff | F1 | Score | density |")
    print("|---|---|---|---|---|---|---|")
    for name, dialogues in sets.items():
        ends = sum(len(each.ends) for each in dialogues)
        gaps = sum(len(each.texts) - 1 for each in dialogues)
        for method, segmenter in methods.items():
            row = score(dialogues, segmenter)
            print(
                f"| {name} | {method} | {row.pk:.3f} | {row.window_diff:.3f} | {row.f1:.3f} "
                f"| {row.score:.3f} | {row.density:.3f} |"
            )
        print(f"| {name} | people | | | | | {ends / gaps:.3f} |")
    everything = [each for dialogues in sets.values() for each in dialogues]
    began = perf_counter()
    for each in everything:
        ours(each)
    messages = sum(len(each.texts) for each in everything)
    print(
        f"\nA decision takes {(perf_counter() - began) / messages * 1000:.3f} ms without embedding."
    )


if __name__ == "__main__":
    main()
