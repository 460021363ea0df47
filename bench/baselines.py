"""Simple baselines, compared with our ranking on the same vectors.

Plain BM25 on stems, plain cosine, their reciprocal rank fusion, and the equal-weight sum of both
scaled to 0..1. They do not use threads, speakers, times or links.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import Stemmer
from numpy.typing import NDArray

from recollect.keywords.stop_words import STOP_WORDS

Scores = NDArray[np.float64]

_K1 = 1.2
_B = 0.75
_RRF_K = 60
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Postings:
    """The units that contain a stem, in storage order, and how often."""

    units: NDArray[np.int64]
    counts: Scores


class Baselines:
    """The units of one scope, which can be scored as of any number of saves."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors
        bags = [Counter(_stems(text)) for text in texts]
        self._lengths = np.array([bag.total() for bag in bags], dtype=np.float64)
        self._postings = _build_postings(bags)

    def all(self, query: str, vector: NDArray[np.float32], stored: int) -> dict[str, Scores]:
        """Return every baseline's scores of the first `stored` units."""
        words = self._bm25(query, stored)
        near = (self._vectors[:stored] @ vector).astype(np.float64)
        return {
            "BM25": words,
            "vectors": near,
            "RRF": _reciprocal(words, only_positive=True) + _reciprocal(near),
            "sum": (_scaled(words) + _scaled(near)) / 2,
        }

    def _bm25(self, query: str, stored: int) -> Scores:
        lengths = self._lengths[:stored]
        norm = _K1 * (1 - _B + _B * lengths / max(float(lengths.mean()), 1e-9))
        scores = np.zeros(stored)
        for stem, times in Counter(_stems(query)).items():
            posted = self._postings.get(stem)
            if posted is None:
                continue
            seen = int(np.searchsorted(posted.units, stored))
            units, counts = posted.units[:seen], posted.counts[:seen]
            rarity = np.log(1 + (stored - seen + 0.5) / (seen + 0.5))
            scores[units] += times * rarity * counts * (_K1 + 1) / (counts + norm[units])
        return scores


def ranked(scores: Scores) -> list[int]:
    """Return the positions of the units in storage, best first; ties in storage order."""
    return [int(position) for position in np.argsort(-scores, kind="stable")]


def _build_postings(bags: Sequence[Counter[str]]) -> Mapping[str, Postings]:
    found: dict[str, tuple[list[int], list[int]]] = {}
    for number, bag in enumerate(bags):
        for stem, count in bag.items():
            units, counts = found.setdefault(stem, ([], []))
            units.append(number)
            counts.append(count)
    return {
        stem: Postings(np.array(units), np.array(counts, dtype=np.float64))
        for stem, (units, counts) in found.items()
    }


def _reciprocal(scores: Scores, *, only_positive: bool = False) -> Scores:
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    found = 1 / (_RRF_K + ranks)
    return np.where(scores > 0, found, 0.0) if only_positive else found


def _scaled(scores: Scores) -> Scores:
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP]


_STOP = STOP_WORDS["english"]


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:  # PyStemmer ships no types
    return Stemmer.Stemmer("english")  # pyright: ignore[reportUnknownVariableType]
