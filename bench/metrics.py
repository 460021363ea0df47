"""What a ranking is worth: the measures of the data's protocol, as pure functions.

A ranking is a list of ids, best first; the first place is 1. An id that occurs twice (RealMem has
facts that share one) keeps both its places and counts once, at the better one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

# Enough for two stable digits of an interval; the seed makes a table repeatable.
RESAMPLES = 2_000
SEED = 7


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures of one ranking, or their means over many."""

    recall_5: float
    recall_10: float
    hit_10: float
    all_10: float
    reciprocal_rank: float
    ndcg_10: float


def quality(ranking: Sequence[str], gold: AbstractSet[str]) -> Quality:
    """All measures of one ranking; `gold` must not be empty."""
    places = places_of(ranking, gold)
    return Quality(
        recall_5=recall(places, len(gold), 5),
        recall_10=recall(places, len(gold), 10),
        hit_10=float(recall(places, len(gold), 10) > 0),
        all_10=float(recall(places, len(gold), 10) == 1),
        reciprocal_rank=reciprocal_rank(places),
        ndcg_10=ndcg(places, len(gold), 10),
    )


def places_of(ranking: Sequence[str], gold: AbstractSet[str]) -> list[int]:
    """The places of those gold ids that were ranked, best first."""
    first: dict[str, int] = {}
    for place, name in enumerate(ranking, start=1):
        if name in gold:
            first.setdefault(name, place)
    return list(first.values())


def recall(places: Iterable[int], gold_count: int, depth: int) -> float:
    """The share of the gold within the first `depth`."""
    return sum(place <= depth for place in places) / gold_count


def reciprocal_rank(places: Sequence[int]) -> float:
    """One through the best place; 0 when nothing was ranked."""
    return 1 / min(places) if places else 0.0


def ndcg(places: Iterable[int], gold_count: int, depth: int) -> float:
    """Discounted gain, binary, as a share of what the best possible order would have."""
    ideal = range(1, min(gold_count, depth) + 1)
    return math.fsum(map(_discount, (place for place in places if place <= depth))) / math.fsum(
        map(_discount, ideal)
    )


def _discount(place: int) -> float:
    return 1 / math.log2(place + 1)


def by_best_member(ranking: Iterable[str], group_of: Callable[[str], str]) -> list[str]:
    """Groups (sessions) in the order of their first member."""
    return list(dict.fromkeys(group_of(name) for name in ranking))


def newest_leads(ranking: Sequence[str], newest: AbstractSet[str], older: AbstractSet[str]) -> bool:
    """Whether a newest piece of evidence stands above every older one; unranked is below all."""
    never = len(ranking) + 1
    return min(places_of(ranking, newest), default=never) < min(
        places_of(ranking, older), default=never
    )


def auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """How often the best score of an answerable question is the higher one; ties count half."""
    wins = sum((high > low) + (high == low) / 2 for high in answerable for low in unanswerable)
    return wins / (len(answerable) * len(unanswerable))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds between which 95 % of the resampled means lie."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The bootstrap 95 % interval of the mean, the same for the same values."""
    sample = np.asarray(values, dtype=np.float64)
    dice = np.random.default_rng(SEED)
    means = np.array([np.mean(dice.choice(sample, sample.size)) for _ in range(RESAMPLES)])
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(np.mean(sample)), float(low), float(high))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """By how much we are better, question by question; above zero throughout, it is no accident."""
    return interval([mine - other for mine, other in zip(ours, theirs, strict=True)])
