"""BM25 on arrays: pure. What a question's words are worth in each text that has any of them.

The database reads postings and nothing else of it: 3,400 of them took it 21 ms to score, and take
4 to be read and 1 to be scored here (`python -m bench.growth --sizes 100000 --workspaces 1` shows
the whole).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recollect.store.arrays import IdBytes, id_bytes, read_ids, read_integers

Floats = NDArray[np.float64]

# Aggregates of the rows `posting` of one term, for `postings_of`.
POSTED = """
    array_send(array_agg(posting.id)) AS ids,
    array_send(array_agg(posting.frequency)) AS frequencies,
    array_send(array_agg(posting.length)) AS lengths
"""

# k1 = 1.2 and b = 0.75, but length counts against a text only beyond 64 terms, and not against the
# average: a statement is not too long because it has two sentences. The 64 was chosen while looking
# at LoCoMo, RealMem and LongMemEval.
_K1 = 1.2
_B = 0.75
_LONG = 64


@dataclass(frozen=True, slots=True)
class Posted:
    """The texts that have a term, as the bytes of their ids, and what its frequency says there."""

    ids: IdBytes
    saturated: Floats
    # Whether these are all of them.
    is_whole: bool = True


def postings_of(rows: Iterable[Sequence[Any]], most: int) -> dict[str, Posted]:
    """From rows of a term, something else, and the columns of `POSTED`; a term nobody has is out.

    The columns must have been fetched in binary. A term of so many texts was read in part.
    """
    return {
        term: _posted(read_ids(ids), read_integers(frequencies), read_integers(lengths), most)
        for term, _, ids, frequencies, lengths in rows
        if ids is not None
    }


def _posted(ids: IdBytes, frequencies: Floats, lengths: Floats, most: int) -> Posted:
    return Posted(ids, saturated(frequencies, lengths), is_whole=len(ids) < most)


def saturated(frequency: Floats, length: Floats) -> Floats:
    """What a frequency says in a text of that length, at most 2.2."""
    return frequency * (_K1 + 1) / (frequency + _K1 * (1 - _B + _B * np.maximum(1, length / _LONG)))


class Word(NamedTuple):
    """A word of a question: the forms it may have, and of a code also its parts."""

    forms: tuple[str, ...]
    parts: tuple[str, ...] = ()
    # It says when, which is known otherwise too: what lacks it lacks nothing of what is asked.
    is_aside: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        """All that is looked up for it."""
        return (*self.forms, *self.parts)


class Further(NamedTuple):
    """A term that was not read, in the text of one of the rows asked about."""

    row: int
    term: str
    frequency: int
    length: int


class _Read(NamedTuple):
    """Where among all the texts those of a term are, and what its frequency says there."""

    places: NDArray[np.intp]
    saturated: Floats


# All parts of a code, in whatever order and company, are worth so much of the code itself: else
# "10.20.1.14" is as good as "10.20.14.1", and "2" as good as "v2.3.1". The share was tried on a
# store of 240 made-up codes, with any part worth the whole before: the right address came first for
# 4 of 40 then, and for 40 so. The public sets hardly have codes and moved by at most .01.
_PARTS = 0.7


class Own(NamedTuple):
    """What each word is worth in each of some texts, and which share of it they have, 0 to 1."""

    worth: Floats
    shares: Floats


class Worth:
    """What each word of a question is worth in each text that was read.

    A word may have several forms (surface, stem). It counts once, by the form that fits best, and
    weighs what its commonest form does. One that no text has weighs most: a question about unknown
    things is covered little. Where a text has no form of a code, the parts that it has add up, each
    by how rare it is.
    """

    def __init__(
        self,
        query: Sequence[Word],
        postings: Mapping[str, Posted],
        counts: Mapping[str, int],
        texts: int,
    ) -> None:
        """The postings read, how many texts have the terms that were not, how many there are."""
        self._query, self._postings, self._texts = query, postings, texts
        self._counts = {
            term: _count(postings.get(term), counts.get(term, 0))
            for word in query
            for term in word.terms
        }
        rarity = {term: _rarity(count, texts) for term, count in self._counts.items()}
        self.weights = np.array([_weight(word, rarity) for word in query])
        self._part_shares = [
            {part: _PARTS * rarity[part] / _sum(word.parts, rarity) for part in word.parts}
            for word in query
        ]
        self._words_of: dict[str, list[int]] = {}
        for number, word in enumerate(query):
            for term in dict.fromkeys(word.terms):
                self._words_of.setdefault(term, []).append(number)
        self._ids, at = _distinct([posted.ids for posted in postings.values()])
        self._read: dict[str, _Read] = {}
        start = 0
        for term, posted in postings.items():
            places = at[start : start + len(posted.ids)]
            start += len(posted.ids)
            self._read[term] = _Read(places, posted.saturated)
        self._scores = self._summed()

    def _summed(self) -> Floats:
        """What all words together are worth in each text.

        Word by word: a table of every word in every text would be 400 MB for the 3,500 different
        words of a long Chinese text in a workspace of 15,000.
        """
        scores, best = np.zeros(len(self._ids)), np.zeros(len(self._ids))
        for weight, word, shares in zip(self.weights, self._query, self._part_shares, strict=True):
            forms = [self._read[term] for term in word.forms if term in self._read]
            parts = [(self._read[term], shares[term]) for term in shares if term in self._read]
            for (places, saturation), share in parts:
                best[places] += weight * share * np.minimum(saturation, 1)
            for places, saturation in forms:
                best[places] = np.maximum(best[places], weight * saturation)
            for places, _ in (*forms, *(read for read, _ in parts)):
                scores[places] += best[places]
                best[places] = 0
        return scores

    def __len__(self) -> int:
        """In how many texts any word is worth anything."""
        return len(self._ids)

    @property
    def unknown(self) -> list[Word]:
        """The words that no text has in any form."""
        return [word for word in self._query if not any(self._counts[term] for term in word.terms)]

    @property
    def sampled(self) -> list[str]:
        """The terms of which not all texts were read."""
        return [term for term, posted in self._postings.items() if not posted.is_whole]

    def among(self, ids: IdBytes, postings: Mapping[str, Posted]) -> "Worth":
        """The same words, weighing the same, in these texts alone.

        With the postings that they have of the sampled terms.
        """
        is_among = np.isin(self._ids, ids)
        kept = {term: is_among[read.places] for term, read in self._read.items()}
        whole = {
            term: Posted(posted.ids[kept[term]], posted.saturated[kept[term]])
            for term, posted in self._postings.items()
            if posted.is_whole
        }
        # In part, so that the words weigh what they do in all texts.
        parts = {
            term: replace(posted, is_whole=False) for term, posted in {**whole, **postings}.items()
        }
        return Worth(self._query, parts, self._counts, self._texts)

    def best(self, most: int, equals: int = 0) -> tuple[IdBytes, Floats]:
        """The texts worth most and how much, best first; of equals those of the lower ids.

        Up to `equals` of them may be more, where they are worth as much as the last.
        """
        scores = self._scores
        places = np.arange(len(scores))
        if most < len(scores):
            places = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
        order = places[np.argsort(-scores[places], kind="stable")][: max(most, equals)]
        return self._ids[order], scores[order]

    def of(self, ids: Sequence[UUID], further: Iterable[Further]) -> Own:
        """A row for each text, with the terms that were not read."""
        names = id_bytes(ids)
        places = np.searchsorted(self._ids, names)
        rows = np.flatnonzero(places < len(self._ids))
        rows = rows[self._ids[places[rows]] == names[rows]]
        row_at = np.full(len(self._ids), -1)
        row_at[places[rows]] = rows
        worth, shares, parts = np.zeros((3, len(ids), len(self.weights)))
        more = _by_term(further)
        for term in dict.fromkeys((*self._read, *more)):
            says = np.zeros(len(ids))
            if term in self._read:
                places, saturation = self._read[term]
                asked = np.flatnonzero(row_at[places] >= 0)
                says[row_at[places[asked]]] = saturation[asked]
            if term in more:
                at, frequencies, lengths = np.array(more[term]).T
                says[at] = saturated(frequencies, lengths)
            for word in self._words_of[term]:
                if term in self._query[word].forms:
                    np.maximum(worth[:, word], self.weights[word] * says, out=worth[:, word])
                    shares[:, word][says > 0] = 1
                else:
                    parts[:, word] += self._part_shares[word][term] * np.minimum(says, 1)
        return Own(np.maximum(worth, self.weights * parts), np.maximum(shares, parts))

    def coverage(self, own: Own) -> Floats:
        """The share of the question's weight that each text carries, 0 to 1.

        What says when counts only where nothing else is asked for.
        """
        is_asked = np.array([not word.is_aside for word in self._query], dtype=np.bool_)
        weights = self.weights * is_asked if is_asked.any() else self.weights
        return own.shares @ weights / max(float(weights.sum()), 1e-9)


def _weight(word: Word, rarity: Mapping[str, float]) -> float:
    """What its commonest form weighs; a code no more than its parts together."""
    weight = min(rarity[form] for form in word.forms)
    return min(weight, _sum(word.parts, rarity)) if word.parts else weight


def _sum(terms: Iterable[str], rarity: Mapping[str, float]) -> float:
    return sum(rarity[term] for term in terms)


def _by_term(further: Iterable[Further]) -> dict[str, list[tuple[int, int, int]]]:
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row, term, frequency, length in further:
        found.setdefault(term, []).append((row, frequency, length))
    return found


def _distinct(lists: Sequence[IdBytes]) -> tuple[IdBytes, NDArray[np.intp]]:
    """All ids once, in order, and where among them each of the lists' ids is.

    As `numpy.unique`, but the lists are in order already, mostly, and a stable sort makes use of
    that: 300,000 ids take 9 ms instead of 19.
    """
    every = np.concatenate([*lists, np.empty(0, "S16")])
    order = np.argsort(every, kind="stable")
    ids = every[order]
    is_first = np.ones(len(ids), dtype=np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    places = np.empty(len(ids), dtype=np.intp)
    places[order] = np.cumsum(is_first) - 1
    return ids[is_first], places


def _count(read: Posted | None, counted: int) -> int:
    """How many texts have a term: as many as were read, unless there are more."""
    if read is None:
        return counted
    return len(read.ids) if read.is_whole else max(len(read.ids), counted)


def _rarity(having: int, texts: int) -> float:
    # A count may be older than the number of texts, and larger.
    return float(np.log(1 + (max(texts, having) - having + 0.5) / (having + 0.5)))
