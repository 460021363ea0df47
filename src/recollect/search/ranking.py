"""Combine ranked lists into one order. Pure: no clock, no socket, no database."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import fsum
from typing import NamedTuple

from recollect.core.domain import MemoryId, Relation
from recollect.memories.queries.links import LinkStep
from recollect.search.evidence import Traits, best_first

RRF_K = 60  # the original paper's value, not tuned; the contract states it


class RankedList(StrEnum):
    """The list in which a memory was found."""

    VECTOR = "vector"
    WORDS = "words"
    LINKS = "links"
    # Memories of the time that the question names; used only if it asks for nothing else.
    TIME = "time"


# How relevant the other end of a link is, by relation.
MULTIPLIERS: Mapping[str, float] = {
    Relation.UPDATES: 1.5,
    Relation.CAUSED_BY: 1.3,
    Relation.RESULT_OF: 1.3,
    Relation.RELATED_TO: 1.0,
    Relation.PART_OF: 0.8,
    Relation.CONTRADICTS: 0.5,
}


class ListEntry(NamedTuple):
    """A memory in one list: its rank from 1, and the score that put it there."""

    source: RankedList
    rank: int
    score: float
    # For the links list: the memories and relations on the way, beginning with the start.
    path: tuple[str, ...] = ()


class Fused(NamedTuple):
    """A memory with its entries in the lists and its fused score."""

    memory_id: MemoryId
    score: float
    places: tuple[ListEntry, ...]


class LinkedNode(NamedTuple):
    """A candidate of one list, before it has a rank."""

    memory_id: MemoryId
    score: float
    path: tuple[str, ...] = ()


def fuse(lists: Mapping[RankedList, Sequence[LinkedNode]]) -> list[Fused]:
    """Fuse by reciprocal rank: each memory scores the sum of 1 / (60 + rank) over its lists.

    Each list must be sorted best first. The result is not sorted; see `sort_hits`.
    """
    places: dict[MemoryId, list[ListEntry]] = {}
    for source, candidates in lists.items():
        for rank, each in enumerate(candidates, start=1):
            listed = ListEntry(source, rank, each.score, each.path)
            places.setdefault(each.memory_id, []).append(listed)
    return [
        Fused(memory_id, fsum([1 / (RRF_K + listed.rank) for listed in found]), tuple(found))
        for memory_id, found in places.items()
    ]


def sort_hits(fused: Iterable[Fused], traits: Mapping[MemoryId, Traits]) -> list[Fused]:
    """Sort best first; ties go by importance, then the caller's own thread, then age.

    Memories without traits no longer exist and are left out.
    """
    return best_first(
        (each for each in fused if each.memory_id in traits),
        lambda each: each.score,
        lambda each: (
            *traits[each.memory_id].order,
            all(listed.source is RankedList.LINKS for listed in each.places),
            each.memory_id,
        ),
    )


def follow_links(steps: Sequence[LinkStep], seeds: Sequence[MemoryId]) -> list[LinkedNode]:
    """Return the memories within two hops of the seeds, best first, each once by its best path.

    A node's score is its importance x weight and multiplier of the link. A second hop is also
    multiplied by the weight and multiplier of the first.
    """
    strength: dict[MemoryId, float] = dict.fromkeys(seeds, 1.0)
    paths: dict[MemoryId, tuple[str, ...]] = {seed: (str(seed),) for seed in seeds}
    reached: dict[MemoryId, LinkedNode] = {}
    for hop in (1, 2):
        reached_here: dict[MemoryId, tuple[float, tuple[str, ...]]] = {}
        for step in (each for each in steps if each.hop == hop):
            if step.start_id not in strength:
                continue
            carried = strength[step.start_id] * step.weight * MULTIPLIERS[step.relation]
            path = (*paths[step.start_id], step.relation, str(step.end_id))
            score = step.end_importance * carried
            if step.end_id not in reached or reached[step.end_id].score < score:
                reached[step.end_id] = LinkedNode(step.end_id, score, path)
            if (
                step.end_id not in strength
                and carried > reached_here.get(step.end_id, (0.0, ()))[0]
            ):
                reached_here[step.end_id] = (carried, path)
        strength |= {memory_id: carried for memory_id, (carried, _) in reached_here.items()}
        paths |= {memory_id: path for memory_id, (_, path) in reached_here.items()}
    return sorted(reached.values(), key=lambda each: (-each.score, each.memory_id))
