"""The ranking metrics of the datasets' protocol, as pure functions.

A ranking is a list of ids, best first; the first position is 1. An id that occurs twice (RealMem
has facts with the same id) takes both positions but counts once, at the better one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

# Enough for two stable digits of an interval; the seed makes tables reproducible.
RESAMPLES = 2_000
SEED = 7


@dataclass(frozen=True, slots=True)
class Quality:
    """The metrics of one ranking, or their means over many."""

    recall_5: float
    recall_10: float
    hit_10: float
    all_10: float
    reciprocal_rank: float
    ndcg_10: float


def quality(ranking: Sequence[str], gold: AbstractSet[str]) -> Quality:
    """Return all metrics of one ranking; `gold` must not be empty."""
    positions = positions_of(ranking, gold)
    return Quality(
        recall_5=recall(positions, len(gold), 5),
        recall_10=recall(positions, len(gold), 10),
        hit_10=float(recall(positions, len(gold), 10) > 0),
        all_10=float(recall(positions, len(gold), 10) == 1),
        reciprocal_rank=reciprocal_rank(positions),
        ndcg_10=ndcg(positions, len(gold), 10),
    )


def positions_of(ranking: Sequence[str], gold: AbstractSet[str]) -> list[int]:
    """Return the positions of the gold ids that were ranked, best first."""
    first: dict[str, int] = {}
    for position, name in enumerate(ranking, start=1):
        if name in gold:
            first.setdefault(name, position)
    return list(first.values())


def recall(positions: Iterable[int], gold_count: int, depth: int) -> float:
    """Return the share of the gold ids within the first `depth` positions."""
    return sum(position <= depth for position in positions) / gold_count


def reciprocal_rank(positions: Sequence[int]) -> float:
    """Return one divided by the best position; 0 if nothing was ranked."""
    return 1 / min(positions) if positions else 0.0


def ndcg(positions: Iterable[int], gold_count: int, depth: int) -> float:
    """Return the binary discounted gain as a share of the best possible gain."""
    ideal = range(1, min(gold_count, depth) + 1)
    return math.fsum(
        map(_discount, (position for position in positions if position <= depth))
    ) / math.fsum(map(_discount, ideal))


def _discount(position: int) -> float:
    return 1 / math.log2(position + 1)


def by_best_member(ranking: Iterable[str], group_of: Callable[[str], str]) -> list[str]:
    """Return groups (sessions) in the order of their first member."""
    return list(dict.fromkeys(group_of(name) for name in ranking))


def newest_leads(ranking: Sequence[str], newest: AbstractSet[str], older: AbstractSet[str]) -> bool:
    """Return whether the newest evidence ranks above all older; unranked counts as last."""
    never = len(ranking) + 1
    return min(positions_of(ranking, newest), default=never) < min(
        positions_of(ranking, older), default=never
    )


def auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return how often an answerable question has the higher best score; ties count half."""
    wins = sum((high > low) + (high == low) / 2 for high in answerable for low in unanswerable)
    return wins / (len(answerable) * len(unanswerable))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds that contain 95 % of the resampled means."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the bootstrap 95 % interval of the mean; deterministic."""
    sample = np.asarray(values, dtype=np.float64)
    dice = np.random.default_rng(SEED)
    means = np.array([np.mean(dice.choice(sample, sample.size)) for _ in range(RESAMPLES)])
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(np.mean(sample)), float(low), float(high))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the interval of the paired differences; if it is above zero, ours is better."""
    return interval([mine - other for mine, other in zip(ours, theirs, strict=True)])
