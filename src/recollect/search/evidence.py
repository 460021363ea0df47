"""Weigh and order the candidates of a search. Pure.

`docs/recall.md` says how each step was chosen, and how recall changes without it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from math import sqrt
from typing import Any, NamedTuple, TypeVar

from recollect.core.domain import MemoryId, ThreadId
from recollect.keywords.stop_words import STOP_WORDS
from recollect.search.query_dates.dates import NO_DATES, QueryDates

T = TypeVar("T")

# The weight of each fact about a candidate's context: the best score in its thread, its speaker or
# its date named in the question, the caller's own thread, its recency. One round number for all.
CONTEXT_WEIGHT = 0.3
# Two weights closer than this count as equal; the newer memory then goes first.
SCORE_TOLERANCE = 0.15
# Smaller differences between cosines mean nothing. A candidate with a lower cosine than this is
# dropped unless its words match, and if the best cosine is less than this above the typical one,
# all memories are about equally similar to the question.
MIN_COSINE = 0.15


class Traits(NamedTuple):
    """The properties that decide between memories of equal score."""

    importance: float
    is_same_thread: bool
    created_at: datetime

    @property
    def order(self) -> tuple[float, bool, float]:
        """Sort key: important memories first, then those of the caller's own thread, then newer."""
        return -self.importance, not self.is_same_thread, -self.created_at.timestamp()


class Evidence(NamedTuple):
    """A candidate and the facts that its rank depends on."""

    memory_id: MemoryId
    traits: Traits
    thread_id: ThreadId | None = None
    speaker: str | None = None
    # Similarity to the question; None if the memory or the question has no vector.
    cosine: float | None = None
    # BM25 score, including the words of neighbouring messages.
    words: float = 0.0
    # The share of the question's words that are in the memory itself, 0 to 1.
    coverage: float = 0.0
    has_phrases: bool = True
    # How many memories are newer; None if there are more than are counted.
    newer: int | None = None
    # The importance given by the client, without later boosts: frequent access does not make a
    # memory more correct.
    stated: float = 0.0

    @property
    def is_said(self) -> bool:
        """Whether it comes from a conversation; otherwise it is a separate note."""
        return self.thread_id is not None or self.speaker is not None


def weigh_evidence(
    candidates: Sequence[Evidence], typical: float, question: str, dates: QueryDates = NO_DATES
) -> dict[MemoryId, float]:
    """Return a weight for each candidate: words and meaning in equal parts, plus its context.

    `dates` are the dates that the question names.

    Words count as a share of the best score. Meaning counts by the position of the cosine between
    the typical and the best one. So neither depends on the scale of a model or the length of a
    text. If all cosines are about equal, small differences are not magnified. A candidate without
    a vector counts by its words alone.
    """
    most = max((candidate.words for candidate in candidates), default=0.0)
    nearest = max(
        (candidate.cosine for candidate in candidates if candidate.cosine is not None),
        default=typical,
    )
    rise = max(nearest - typical, MIN_COSINE)
    words = [candidate.words / most if most > 0 else 0.0 for candidate in candidates]
    meaning = [
        share if candidate.cosine is None else (candidate.cosine - typical) / rise
        for candidate, share in zip(candidates, words, strict=True)
    ]
    own = [(one + other) / 2 for one, other in zip(words, meaning, strict=True)]
    of_thread = zip(
        _best_of_thread(candidates, words), _best_of_thread(candidates, meaning), strict=True
    )
    named = words_naming_speakers(question)

    def context_weight(candidate: Evidence) -> float:
        found = CONTEXT_WEIGHT * dates.nearness(candidate.traits.created_at)
        if is_named(candidate.speaker, named):
            found += CONTEXT_WEIGHT
        if candidate.traits.is_same_thread:
            found += CONTEXT_WEIGHT
        # A question that names a time does not ask for the latest.
        if candidate.is_said and candidate.newer is not None and not dates.days:
            found += CONTEXT_WEIGHT / sqrt(1 + candidate.newer)
        # A quoted phrase is a requirement: memories with it always come first.
        return found + (0.0 if candidate.has_phrases else -10.0)

    return {
        candidate.memory_id: value
        + CONTEXT_WEIGHT * (thread_words + thread_meaning) / 2
        + context_weight(candidate)
        for candidate, value, (thread_words, thread_meaning) in zip(
            candidates, own, of_thread, strict=True
        )
    }


def _best_of_thread(candidates: Sequence[Evidence], values: Sequence[float]) -> Sequence[float]:
    """Return for each candidate the best value in its thread, or its own if it has no thread."""
    best: dict[ThreadId, float] = {}
    for candidate, value in zip(candidates, values, strict=True):
        if candidate.thread_id is not None:
            best[candidate.thread_id] = max(value, best.get(candidate.thread_id, value))
    if not best:
        return values
    return [
        value if candidate.thread_id is None else best[candidate.thread_id]
        for candidate, value in zip(candidates, values, strict=True)
    ]


def best_first(
    found: Iterable[T], score: Callable[[T], float], tie: Callable[[T], tuple[Any, ...]]
) -> list[T]:
    """Sort by score, highest first; compute `tie` only for items of equal score."""
    order: list[T] = []
    for _, equals in groupby(sorted(found, key=score, reverse=True), key=score):
        group = list(equals)
        order += sorted(group, key=tie) if len(group) > 1 else group
    return order


def in_order(candidates: Iterable[Evidence], weights: Mapping[MemoryId, float]) -> list[Evidence]:
    """Return the candidates best first, in the order of `Traits` where weights are equal."""
    return best_first(
        candidates,
        lambda candidate: weights[candidate.memory_id],
        lambda candidate: (*candidate.traits.order, candidate.memory_id),
    )


def newer_first(
    order: Sequence[Evidence],
    weights: Mapping[MemoryId, float],
    are_alike: Callable[[MemoryId, MemoryId], bool],
    dates: QueryDates = NO_DATES,
) -> list[Evidence]:
    """Move a newer memory before an older one on the same subject, if it may replace it.

    Both must have the same speaker and about the same weight. They must not be from one thread:
    the next message of a conversation continues it and replaces nothing. The older one stays first
    if a client gave it more importance, or if it is nearer to the dates that the question names.
    """
    found: list[Evidence] = []
    for candidate in order:
        index = len(found)
        for place, earlier in enumerate(found):
            if (
                _follows(candidate, earlier, weights)
                and not _is_nearer(earlier, candidate, dates)
                and are_alike(candidate.memory_id, earlier.memory_id)
            ):
                index = place
                break
        found.insert(index, candidate)
    return found


def _follows(candidate: Evidence, earlier: Evidence, weights: Mapping[MemoryId, float]) -> bool:
    return (
        (candidate.thread_id is None or candidate.thread_id != earlier.thread_id)
        and candidate.speaker == earlier.speaker
        and candidate.traits.created_at > earlier.traits.created_at
        and not earlier.traits.is_same_thread
        and candidate.stated >= earlier.stated
        and weights[earlier.memory_id] - weights[candidate.memory_id] < SCORE_TOLERANCE
    )


def _is_nearer(one: Evidence, other: Evidence, dates: QueryDates) -> bool:
    return dates.nearness(one.traits.created_at) > dates.nearness(other.traits.created_at)


# "I" in a question refers to the user, "you" to the assistant.
_FIRST_PERSON = frozenset(
    ("i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "i'm", "i've", "i'd", "i'll")
)
_SECOND_PERSON = frozenset(("you", "your", "yours", "yourself", "you're", "you've"))
_USERS = frozenset({"user", "human"})
_ASSISTANTS = frozenset({"assistant", "ai", "bot"})
_SENTENCE_END = re.compile(r"[.!?]\s+\S")


def words_naming_speakers(question: str) -> frozenset[str]:
    """Return the words of a question that may name a speaker, and the roles its pronouns refer to.

    Pronouns are ignored in a question of several sentences: the first ones give its background.
    """
    words = frozenset(
        word.strip("?!.,;:'\"()").removesuffix("'s").casefold()
        for word in question.replace("\u2019", "'").split()
    )
    # "The deadline: Friday" names no speaker called "the".
    named = words - STOP_WORDS["english"]
    if _SENTENCE_END.search(question.strip()):
        return named
    if words & _FIRST_PERSON:
        named |= _USERS
    if words & _SECOND_PERSON:
        named |= _ASSISTANTS
    return named


def is_named(speaker: str | None, named: frozenset[str]) -> bool:
    """Whether a word of the speaker's name is among `named`."""
    return speaker is not None and any(word.casefold() in named for word in speaker.split())
