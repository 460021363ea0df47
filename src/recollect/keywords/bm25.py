"""BM25 scores, computed on arrays. Pure.

The database only reads postings. Scoring 3,400 of them in SQL took 21 ms; now they take 4 ms to
read and 1 ms to score here (`python -m bench.growth --sizes 100000 --workspaces 1` measures whole
searches).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recollect.db.arrays import IdBytes, id_bytes, read_ids, read_integers

Floats = NDArray[np.float64]

# Aggregates of the rows `posting` of one term, as input for `postings_of`.
POSTED = """
    array_send(array_agg(posting.id)) AS ids,
    array_send(array_agg(posting.frequency)) AS frequencies,
    array_send(array_agg(posting.length)) AS lengths
"""

# k1 = 1.2 and b = 0.75, but a text is penalised for its length only above 64 terms, instead of
# relative to the average: a statement with two sentences is not too long. The value 64 was chosen
# by results on LoCoMo, RealMem and LongMemEval.
_K1 = 1.2
_B = 0.75
_LONG_TEXT = 64


@dataclass(frozen=True, slots=True)
class Posting:
    """The texts that contain a term (ids as bytes), and the saturated frequency in each."""

    ids: IdBytes
    saturated: Floats
    # Whether these are all texts that contain the term.
    is_whole: bool = True


def postings_of(rows: Iterable[Sequence[Any]], limit: int) -> dict[str, Posting]:
    """Build postings from rows of a term, another column and the columns of `POSTED`.

    Terms without texts are left out. The columns must be fetched in binary format. A term with
    `limit` texts counts as read in part.
    """
    return {
        term: _make_posting(
            read_ids(ids), read_integers(frequencies), read_integers(lengths), limit
        )
        for term, _, ids, frequencies, lengths in rows
        if ids is not None
    }


def _make_posting(ids: IdBytes, frequencies: Floats, lengths: Floats, limit: int) -> Posting:
    return Posting(ids, saturate(frequencies, lengths), is_whole=len(ids) < limit)


def saturate(frequency: Floats, length: Floats) -> Floats:
    """Return the saturated frequency in a text of that length, at most 2.2."""
    return (
        frequency
        * (_K1 + 1)
        / (frequency + _K1 * (1 - _B + _B * np.maximum(1, length / _LONG_TEXT)))
    )


class Word(NamedTuple):
    """A word of a query: its possible forms and, for a code, its parts."""

    forms: tuple[str, ...]
    parts: tuple[str, ...] = ()
    # The word says when. Dates are also matched otherwise, so a text without it misses nothing.
    is_time_word: bool = False

    @property
    def is_code(self) -> bool:
        """Whether the word is a code, an address or a path, and not a compound of letters."""
        return bool(self.parts) and not self.forms[0].isalpha()

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms that are looked up for the word."""
        return (*self.forms, *self.parts)


class LaterWords(NamedTuple):
    """The frequency of a term whose postings were not read, in one text (by row number)."""

    row: int
    term: str
    frequency: int
    length: int


class _TermPositions(NamedTuple):
    """The positions of a term's texts among all texts, and the saturated frequency in each."""

    positions: NDArray[np.intp]
    saturated: Floats


# All parts of a code together, in any order, are worth this share of the code itself. Otherwise
# "10.20.1.14" would be as good as "10.20.14.1", and "2" as good as "v2.3.1". The share was tested
# on 240 made-up codes: the right address came first for 40 of 40, and for 4 of 40 when any part was
# worth as much as the whole. The public data sets have few codes and changed by at most .01.
_PARTS_SHARE = 0.7


class OwnStatistics(NamedTuple):
    """The score of each word in each text, and the share of the word that the text has, 0 to 1."""

    scores: Floats
    shares: Floats


class Bm25Score:
    """The score of each query word in each text that was read.

    A word may have several forms (surface, stem). It counts once, by its best matching form, and
    has the weight of its most common form. A word that no text has gets the highest weight, so a
    query about unknown things has low coverage. If a text has no form of a code, the parts that it
    has add up, each weighted by its rarity.
    """

    def __init__(
        self,
        query: Sequence[Word],
        postings: Mapping[str, Posting],
        counts: Mapping[str, int],
        texts: int,
    ) -> None:
        """Take the postings read, the counts of terms not read, and the number of texts."""
        self._query, self._postings, self._texts = query, postings, texts
        self._counts = {
            term: _count(postings.get(term), counts.get(term, 0))
            for word in query
            for term in word.terms
        }
        rarity = {term: _rarity(count, texts) for term, count in self._counts.items()}
        self.weights = np.array([_weight(word, rarity) for word in query])
        self._part_shares = [
            {part: _PARTS_SHARE * rarity[part] / _sum(word.parts, rarity) for part in word.parts}
            for word in query
        ]
        self._words_of: dict[str, list[int]] = {}
        for number, word in enumerate(query):
            for term in dict.fromkeys(word.terms):
                self._words_of.setdefault(term, []).append(number)
        self._ids, at = _distinct([posted.ids for posted in postings.values()])
        self._positions_of: dict[str, _TermPositions] = {}
        start = 0
        for term, posted in postings.items():
            positions = at[start : start + len(posted.ids)]
            start += len(posted.ids)
            self._positions_of[term] = _TermPositions(positions, posted.saturated)
        self._scores = self._total_scores()

    def _total_scores(self) -> Floats:
        """Return the total score of each text.

        Computed word by word: a table of every word in every text would take 400 MB for the 3,500
        distinct words of a long Chinese text in a workspace of 15,000.
        """
        scores, best = np.zeros(len(self._ids)), np.zeros(len(self._ids))
        for weight, word, shares in zip(self.weights, self._query, self._part_shares, strict=True):
            forms = [self._positions_of[term] for term in word.forms if term in self._positions_of]
            parts = [
                (self._positions_of[term], shares[term])
                for term in shares
                if term in self._positions_of
            ]
            for (positions, saturation), share in parts:
                best[positions] += weight * share * np.minimum(saturation, 1)
            for positions, saturation in forms:
                best[positions] = np.maximum(best[positions], weight * saturation)
            for positions, _ in (*forms, *(read for read, _ in parts)):
                scores[positions] += best[positions]
                best[positions] = 0
        return scores

    def __len__(self) -> int:
        """Return the number of texts that have any of the words."""
        return len(self._ids)

    @property
    def unknown(self) -> list[Word]:
        """The words of which no text has any form."""
        return [word for word in self._query if not any(self._counts[term] for term in word.terms)]

    @property
    def sampled(self) -> list[str]:
        """The terms whose postings were read only in part."""
        return [term for term, posted in self._postings.items() if not posted.is_whole]

    def among(self, ids: IdBytes, postings: Mapping[str, Posting]) -> "Bm25Score":
        """Return the scores of the same words, with the same weights, for these texts only.

        `postings` are the postings of the sampled terms for these texts.
        """
        is_among = np.isin(self._ids, ids)
        kept = {term: is_among[read.positions] for term, read in self._positions_of.items()}
        whole = {
            term: Posting(posted.ids[kept[term]], posted.saturated[kept[term]])
            for term, posted in self._postings.items()
            if posted.is_whole
        }
        # Marked as partial, so that the weights stay those of all texts.
        parts = {
            term: replace(posted, is_whole=False) for term, posted in {**whole, **postings}.items()
        }
        return Bm25Score(self._query, parts, self._counts, self._texts)

    def best(self, limit: int, equals: int = 0) -> tuple[IdBytes, Floats]:
        """Return the texts with the highest scores, best first; ties by lower id.

        Up to `equals` texts may be returned if they tie with the last one.
        """
        scores = self._scores
        positions = np.arange(len(scores))
        if limit < len(scores):
            positions = np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])
        order = positions[np.argsort(-scores[positions], kind="stable")][: max(limit, equals)]
        return self._ids[order], scores[order]

    def of(self, ids: Sequence[UUID], later: Iterable[LaterWords]) -> OwnStatistics:
        """Return a row for each text, including the terms that were not read."""
        names = id_bytes(ids)
        positions = np.searchsorted(self._ids, names)
        rows = np.flatnonzero(positions < len(self._ids))
        rows = rows[self._ids[positions[rows]] == names[rows]]
        row_at = np.full(len(self._ids), -1)
        row_at[positions[rows]] = rows
        scores, shares, parts = np.zeros((3, len(ids), len(self.weights)))
        more = _by_term(later)
        for term in dict.fromkeys((*self._positions_of, *more)):
            saturated = np.zeros(len(ids))
            if term in self._positions_of:
                positions, saturation = self._positions_of[term]
                requested = np.flatnonzero(row_at[positions] >= 0)
                saturated[row_at[positions[requested]]] = saturation[requested]
            if term in more:
                at, frequencies, lengths = np.array(more[term]).T
                saturated[at] = saturate(frequencies, lengths)
            for word in self._words_of[term]:
                if term in self._query[word].forms:
                    np.maximum(scores[:, word], self.weights[word] * saturated, out=scores[:, word])
                    shares[:, word][saturated > 0] = 1
                else:
                    parts[:, word] += self._part_shares[word][term] * np.minimum(saturated, 1)
        return OwnStatistics(np.maximum(scores, self.weights * parts), np.maximum(shares, parts))

    def coverage(self, statistics: OwnStatistics) -> Floats:
        """Return the share of the query's weight that each text has, 0 to 1.

        Time words count only if the query has no other words. For a text that has a whole code of
        the query, words that no text has do not count: in "show me 99-1432" the code says it all.
        """
        counts = np.array([not word.is_time_word for word in self._query], dtype=np.bool_)
        weights = self.weights * counts if counts.any() else self.weights
        codes = [number for number, word in enumerate(self._query) if word.is_code]
        has_code = (statistics.shares[:, codes] >= 1).any(axis=1)
        unknown = set(self.unknown)
        known = np.array([word not in unknown for word in self._query], dtype=np.bool_)
        totals = np.where(has_code, weights @ known, weights.sum())
        return statistics.shares @ weights / np.maximum(totals, 1e-9)


def _weight(word: Word, rarity: Mapping[str, float]) -> float:
    """Return the weight of the most common form; for a code at most that of all its parts."""
    weight = min(rarity[form] for form in word.forms)
    return min(weight, _sum(word.parts, rarity)) if word.parts else weight


def _sum(terms: Iterable[str], rarity: Mapping[str, float]) -> float:
    return sum(rarity[term] for term in terms)


def _by_term(later: Iterable[LaterWords]) -> dict[str, list[tuple[int, int, int]]]:
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row, term, frequency, length in later:
        found.setdefault(term, []).append((row, frequency, length))
    return found


def _distinct(lists: Sequence[IdBytes]) -> tuple[IdBytes, NDArray[np.intp]]:
    """Return all ids once, sorted, and the position of each list's ids among them.

    As `numpy.unique`, but the lists are mostly sorted already and a stable sort uses that: 300,000
    ids take 9 ms instead of 19.
    """
    every = np.concatenate([*lists, np.empty(0, "S16")])
    order = np.argsort(every, kind="stable")
    ids = every[order]
    is_first = np.ones(len(ids), dtype=np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    positions = np.empty(len(ids), dtype=np.intp)
    positions[order] = np.cumsum(is_first) - 1
    return ids[is_first], positions


def _count(read: Posting | None, counted: int) -> int:
    """Return how many texts have a term: the number read, or the count if that is higher."""
    if read is None:
        return counted
    return len(read.ids) if read.is_whole else max(len(read.ids), counted)


def _rarity(having: int, texts: int) -> float:
    # A count may be older than the number of texts, and therefore larger.
    return float(np.log(1 + (max(texts, having) - having + 0.5) / (having + 0.5)))
