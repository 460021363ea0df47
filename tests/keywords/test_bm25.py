"""BM25 on arrays gives the same scores as the plain formula, whatever the ids and the postings."""

import tracemalloc
from collections.abc import Mapping, Sequence
from math import log
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.domain import Caller
from recollect.db.arrays import FloatArray, IdArray, id_bytes, ids_of, read_ids, read_integers
from recollect.engine import Engine
from recollect.keywords.bm25 import Bm25Score, LaterWords, Posting, Word, saturate

pytestmark = pytest.mark.anyio

# Few, so that terms share texts. The second ends in a zero byte, which a string would lose.
IDS = [UUID(int=1), UUID(int=256), UUID(int=2**128 - 1), UUID(int=7 << 64), UUID(int=0)]
TERMS = ["tea", "teas", "milk", "jug"]
Frequencies = Mapping[str, Mapping[UUID, tuple[int, int]]]

frequencies_by_term = st.dictionaries(
    st.sampled_from(TERMS),
    st.dictionaries(
        st.sampled_from(IDS), st.tuples(st.integers(1, 9), st.integers(1, 300)), min_size=1
    ),
)


def word(terms: list[str], forms: int) -> Word:
    return Word(tuple(terms[:forms]), tuple(terms[forms:]))


words = st.builds(
    word, st.lists(st.sampled_from(TERMS), min_size=1, unique=True), st.integers(1, 2)
)
queries = st.lists(words, min_size=1)


def make_posting(frequencies: Mapping[UUID, tuple[int, int]]) -> Posting:
    counts, lengths = np.array(list(frequencies.values()), dtype=np.float64).T
    return Posting(id_bytes(list(frequencies)), saturate(counts, lengths))


def plain_scores(
    query: Sequence[Word], frequencies: Frequencies, texts: int, each: UUID
) -> list[float]:
    """Return the score of each word in one text."""

    def rarity(term: str) -> float:
        texts_with_term = len(frequencies.get(term, {}))
        return log(
            1 + (max(texts, texts_with_term) - texts_with_term + 0.5) / (texts_with_term + 0.5)
        )

    def value(term: str) -> float:
        if each not in frequencies.get(term, {}):
            return 0.0
        frequency, length = frequencies[term][each]
        return frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * max(1.0, length / 64)))

    def weight(word: Word) -> float:
        weight = min(map(rarity, word.forms))
        return min(weight, sum(map(rarity, word.parts))) if word.parts else weight

    def share(word: Word) -> float:
        total = sum(map(rarity, word.parts))
        return sum(0.7 * rarity(part) / total * min(1, value(part)) for part in word.parts)

    return [weight(word) * max(share(word), *map(value, word.forms), 0.0) for word in query]


@given(queries, frequencies_by_term, st.integers(0, 20))
def test_scores_equal_those_of_the_plain_formula(
    query: list[Word], frequencies: Frequencies, texts: int
) -> None:
    query_terms = {term for word in query for term in word.terms}
    read = {term: make_posting(found) for term, found in frequencies.items() if term in query_terms}
    scored = Bm25Score(query, read, {}, texts)

    found = scored.of(IDS, [])

    expected = [plain_scores(query, frequencies, texts, each) for each in IDS]
    assert found.scores == pytest.approx(np.array(expected))
    with_term = {each for term in read for each in frequencies[term]}
    ids, scores = scored.best(len(scored))
    assert set(ids_of(ids)) == with_term
    assert len(scored) == len(with_term)
    assert scores.tolist() == pytest.approx(
        sorted((sum(expected[IDS.index(each)]) for each in with_term), reverse=True)
    )
    for count in range(1, len(scored)):
        few, their_scores = scored.best(count)
        assert few.tolist() == ids[:count].tolist()
        assert their_scores.tolist() == scores[:count].tolist()


@given(queries, frequencies_by_term, st.sampled_from(TERMS))
def test_a_term_that_was_not_read_has_the_same_score(
    query: list[Word], frequencies: Frequencies, rest: str
) -> None:
    query_terms = {term for word in query for term in word.terms}
    postings = {
        term: make_posting(found) for term, found in frequencies.items() if term in query_terms
    }
    read = {term: found for term, found in postings.items() if term != rest}
    counts = {term: len(found) for term, found in frequencies.items()}
    later = [
        LaterWords(IDS.index(each), rest, *values)
        for each, values in frequencies.get(rest, {}).items()
        if rest in query_terms
    ]

    whole = Bm25Score(query, postings, {}, 20)
    partial = Bm25Score(query, read, counts, 20)

    assert partial.of(IDS, later).scores == pytest.approx(whole.of(IDS, []).scores)
    assert partial.coverage(partial.of(IDS, later)) == pytest.approx(
        whole.coverage(whole.of(IDS, []))
    )


@given(queries, frequencies_by_term, st.sets(st.sampled_from(IDS)), st.sets(st.sampled_from(TERMS)))
def test_words_have_the_same_scores_among_some_of_the_texts(
    query: list[Word], frequencies: Frequencies, some: set[UUID], sampled: set[str]
) -> None:
    query_terms = {term for word in query for term in word.terms}
    read = {term: make_posting(found) for term, found in frequencies.items() if term in query_terms}
    whole = Bm25Score(query, read, {}, 20)
    partial = Bm25Score(
        query,
        {
            term: Posting(found.ids[:1], found.saturated[:1], is_whole=False)
            if term in sampled
            else found
            for term, found in read.items()
        },
        {term: len(found) for term, found in frequencies.items()},
        20,
    )
    among_some = {
        term: {each: values for each, values in frequencies[term].items() if each in some}
        for term in partial.sampled
    }

    among_texts = partial.among(
        id_bytes(list(some)),
        {term: make_posting(found) for term, found in among_some.items() if found},
    )

    ids, scores = whole.best(len(whole))
    among = [
        (each, score)
        for each, score in zip(ids_of(ids), scores.tolist(), strict=True)
        if each in some
    ]
    found, found_scores = among_texts.best(len(IDS))
    assert (ids_of(found), found_scores.tolist()) == (
        [each for each, _ in among],
        pytest.approx([score for _, score in among]),
    )


def test_many_words_in_many_texts_need_little_memory() -> None:
    ids = np.sort(np.frombuffer(np.random.default_rng(1).bytes(16 * 15_000), "S16"))
    once = np.ones(5)
    postings = {str(word): Posting(ids[3 * word : 3 * word + 5], once) for word in range(4_000)}
    query = [Word((term,)) for term in postings]

    tracemalloc.start()
    scored = Bm25Score(query, postings, {}, 15_000)
    scored.best(60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # The full table would have 4,000 x 12,000 numbers of 8 bytes.
    assert peak < 20_000_000


def test_coverage_is_one_with_every_word_and_zero_with_none() -> None:
    frequencies = {"tea": {IDS[0]: (1, 5), IDS[1]: (1, 5)}, "milk": {IDS[0]: (2, 5)}}
    scored = Bm25Score(
        [Word(("tea", "teas")), Word(("milk",))],
        {term: make_posting(each) for term, each in frequencies.items()},
        {},
        9,
    )

    covered = scored.coverage(scored.of(IDS[:3], [])).tolist()

    assert covered[0] == pytest.approx(1)
    assert 0 < covered[1] < 0.5  # the more common word has less weight
    assert covered[2] == 0


def test_a_code_scores_more_than_its_parts_which_add_up() -> None:
    frequencies = {
        "10.20.1.14": {IDS[0]: (1, 5)},
        "10": dict.fromkeys(IDS[:4], (1, 5)),
        "20": dict.fromkeys(IDS[:4], (1, 5)),
        "14": {IDS[0]: (1, 5), IDS[1]: (1, 5)},
        # As in the lines of a traceback.
        "1": {IDS[0]: (1, 5), IDS[2]: (90, 300)},
    }
    code = Word(("10.20.1.14",), ("10", "20", "1", "14"))
    scored = Bm25Score(
        [code], {term: make_posting(each) for term, each in frequencies.items()}, {}, 9
    )

    covered = scored.coverage(scored.of(IDS[:4], [])).tolist()

    assert covered[0] == 1
    assert 0.7 > covered[1] > covered[3] > 0
    assert 0.7 > covered[2] > covered[3]
    assert scored.best(9)[0].tolist()[0] == id_bytes(IDS[:1]).tolist()[0]


def test_time_words_do_not_count_for_coverage() -> None:
    frequencies = {"cook": {IDS[0]: (1, 5)}, "saturday": {IDS[1]: (1, 5)}}
    query = [Word(("cook",)), Word(("saturday",), is_time_word=True)]
    scored = Bm25Score(
        query, {term: make_posting(each) for term, each in frequencies.items()}, {}, 9
    )

    assert scored.coverage(scored.of(IDS[:2], [])).tolist() == [1, 0]
    assert scored.of(IDS[:2], []).scores.sum(axis=1)[1] > 0
    alone = Bm25Score(query[1:], {"saturday": make_posting(frequencies["saturday"])}, {}, 9)
    assert alone.coverage(alone.of(IDS[:2], [])).tolist() == [0, 1]


_ECHO = "SELECT array_send(%s::uuid[]), array_send(%s::integer[]), %s::uuid[], %s::float8[]"


async def test_arrays_survive_a_round_trip_to_the_database(engine: Engine, caller: Caller) -> None:
    numbers = np.array([0.1, -0.0, 1e300, float("inf")])
    async with engine.reading(caller) as db:
        cursor = await db.execute(
            _ECHO,
            [IdArray(IDS), [1, -2, 2**31 - 1], IdArray(IDS), FloatArray(numbers)],
            binary=True,
        )
        [(ids, integers, same, floats)] = await cursor.fetchall()
        cursor = await db.execute(
            "SELECT %s::uuid[], %s::float8[]", [IdArray([]), FloatArray(np.array([]))]
        )
        assert await cursor.fetchall() == [([], [])]

    assert ids_of(read_ids(ids)) == same == IDS
    assert read_integers(integers).tolist() == [1, -2, 2**31 - 1]
    assert floats == numbers.tolist()
