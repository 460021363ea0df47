"""What speaks for each candidate of a search, and the order that follows: pure.

How each step was chosen, and what recall is without it: `docs/recall.md`.
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

# What the company of a candidate counts, beside its own words and meaning: the best of its thread,
# that the question names its speaker or its day, that it is of the asker's own thread, that little
# is newer. One round number for all.
SHARE = 0.3
# Of two memories about as good, the newer goes first; so far apart they are about as good.
CLOSE = 0.15
# A cosine that rises less than this says nothing: not above zero, where the candidate is dropped
# unless its words speak for it, nor above the typical one, as where all memories are much alike.
LEAST_COSINE = 0.15


class Traits(NamedTuple):
    """What breaks a tie between memories of equal score."""

    importance: float
    is_same_thread: bool
    created_at: datetime

    @property
    def order(self) -> tuple[float, bool, float]:
        """The more important first, then the asker's own thread, then the newer one."""
        return -self.importance, not self.is_same_thread, -self.created_at.timestamp()


class Evidence(NamedTuple):
    """A candidate and what was found out about it."""

    memory_id: MemoryId
    traits: Traits
    thread_id: ThreadId | None = None
    speaker: str | None = None
    # To the question; None when the memory has no vector, or nothing could be asked.
    cosine: float | None = None
    # BM25, with what was said around it.
    words: float = 0.0
    # The share of the question's words that are its own.
    coverage: float = 0.0
    has_phrases: bool = True
    # How many memories are newer; None when more than anybody counted.
    newer: int | None = None
    # How important somebody said it is: what is often asked for does not stay right for that.
    stated: float = 0.0

    @property
    def is_said(self) -> bool:
        """Whether it was said in a conversation, and is no note by itself."""
        return self.thread_id is not None or self.speaker is not None


def weigh_evidence(
    clues: Sequence[Evidence], typical: float, question: str, meant: QueryDates = NO_DATES
) -> dict[MemoryId, float]:
    """How much speaks for each candidate: words and meaning alike, then its company.

    `meant` are the days that the question names.

    Words are a share of the best score, meaning is how far the cosine rises from the typical one
    towards the best one; so neither depends on the scale of a model or on the size of a text. Where
    all are about as near, a hair's breadth is not made into everything. Without a vector the words
    stand for both.
    """
    most = max((clue.words for clue in clues), default=0.0)
    nearest = max((clue.cosine for clue in clues if clue.cosine is not None), default=typical)
    rise = max(nearest - typical, LEAST_COSINE)
    words = [clue.words / most if most > 0 else 0.0 for clue in clues]
    meaning = [
        share if clue.cosine is None else (clue.cosine - typical) / rise
        for clue, share in zip(clues, words, strict=True)
    ]
    own = [(one + other) / 2 for one, other in zip(words, meaning, strict=True)]
    of_thread = zip(_best_of_thread(clues, words), _best_of_thread(clues, meaning), strict=True)
    named = is_addressed(question)

    def company(clue: Evidence) -> float:
        found = SHARE * meant.nearness(clue.traits.created_at)
        if is_named(clue.speaker, named):
            found += SHARE
        if clue.traits.is_same_thread:
            found += SHARE
        # Whoever names a time does not ask for the latest.
        if clue.is_said and clue.newer is not None and not meant.days:
            found += SHARE / sqrt(1 + clue.newer)
        # A quoted phrase is an order: what has it comes before what has not.
        return found + (0.0 if clue.has_phrases else -10.0)

    return {
        clue.memory_id: value + SHARE * (thread_words + thread_meaning) / 2 + company(clue)
        for clue, value, (thread_words, thread_meaning) in zip(clues, own, of_thread, strict=True)
    }


def _best_of_thread(clues: Sequence[Evidence], values: Sequence[float]) -> Sequence[float]:
    """For each candidate the best value of its thread; its own where it is in none."""
    best: dict[ThreadId, float] = {}
    for clue, value in zip(clues, values, strict=True):
        if clue.thread_id is not None:
            best[clue.thread_id] = max(value, best.get(clue.thread_id, value))
    if not best:
        return values
    return [
        value if clue.thread_id is None else best[clue.thread_id]
        for clue, value in zip(clues, values, strict=True)
    ]


def best_first(
    found: Iterable[T], score: Callable[[T], float], tie: Callable[[T], tuple[Any, ...]]
) -> list[T]:
    """By score; only those that are equal are asked for what breaks the tie."""
    order: list[T] = []
    for _, equals in groupby(sorted(found, key=score, reverse=True), key=score):
        group = list(equals)
        order += sorted(group, key=tie) if len(group) > 1 else group
    return order


def in_order(clues: Iterable[Evidence], weights: Mapping[MemoryId, float]) -> list[Evidence]:
    """Best first; ties as `Traits` break them."""
    return best_first(
        clues,
        lambda clue: weights[clue.memory_id],
        lambda clue: (*clue.traits.order, clue.memory_id),
    )


def newer_first(
    order: Sequence[Evidence],
    weights: Mapping[MemoryId, float],
    are_alike: Callable[[MemoryId, MemoryId], bool],
    meant: QueryDates = NO_DATES,
) -> list[Evidence]:
    """The order, but a later word on the same matter stands before the earlier one.

    Only between conversations, or of notes by themselves, only about as good, only if the earlier
    one was not said to be more important, nor is nearer to the days that are meant, and only by the
    same speaker: what is said next in one conversation goes on, it replaces nothing.
    """
    found: list[Evidence] = []
    for clue in order:
        place = len(found)
        for at, earlier in enumerate(found):
            if (
                _follows(clue, earlier, weights)
                and not _is_nearer(earlier, clue, meant)
                and are_alike(clue.memory_id, earlier.memory_id)
            ):
                place = at
                break
        found.insert(place, clue)
    return found


def _follows(clue: Evidence, earlier: Evidence, weights: Mapping[MemoryId, float]) -> bool:
    return (
        (clue.thread_id is None or clue.thread_id != earlier.thread_id)
        and clue.speaker == earlier.speaker
        and clue.traits.created_at > earlier.traits.created_at
        and not earlier.traits.is_same_thread
        and clue.stated >= earlier.stated
        and weights[earlier.memory_id] - weights[clue.memory_id] < CLOSE
    )


def _is_nearer(one: Evidence, other: Evidence, meant: QueryDates) -> bool:
    return meant.nearness(one.traits.created_at) > meant.nearness(other.traits.created_at)


# Whoever asks in the first person asks about the user; who says "you" means the assistant.
_FIRST_PERSON = frozenset(
    ("i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "i'm", "i've", "i'd", "i'll")
)
_SECOND_PERSON = frozenset(("you", "your", "yours", "yourself", "you're", "you've"))
_USERS = frozenset({"user", "human"})
_ASSISTANTS = frozenset({"assistant", "ai", "bot"})
_SENTENCE_END = re.compile(r"[.!?]\s+\S")


def is_addressed(question: str) -> frozenset[str]:
    """The words of a question that may name a speaker, with whom its pronouns mean.

    A question of several sentences tells something of itself first, so that its pronouns name
    nobody.
    """
    words = frozenset(
        word.strip("?!.,;:'\"()").removesuffix("'s").casefold()
        for word in question.replace("\u2019", "'").split()
    )
    # In "The deadline: Friday" nobody is called "the".
    named = words - STOP_WORDS["english"]
    if _SENTENCE_END.search(question.strip()):
        return named
    if words & _FIRST_PERSON:
        named |= _USERS
    if words & _SECOND_PERSON:
        named |= _ASSISTANTS
    return named


def is_named(speaker: str | None, named: frozenset[str]) -> bool:
    """Whether somebody is among those named."""
    return speaker is not None and any(word.casefold() in named for word in speaker.split())
