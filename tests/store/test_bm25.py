"""Words scored on arrays: the same as by the plain formula, whatever the ids and the postings."""

import tracemalloc
from collections.abc import Mapping, Sequence
from math import log
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.store.arrays import (
    FloatArray,
    IdArray,
    id_bytes,
    ids_of,
    read_ids,
    read_integers,
)
from recollect.store.bm25 import Further, Posted, Word, Worth, saturated

pytestmark = pytest.mark.anyio

# Few, so that terms share texts; the second ends in a byte of zero, which a string would lose.
IDS = [UUID(int=1), UUID(int=256), UUID(int=2**128 - 1), UUID(int=7 << 64), UUID(int=0)]
TERMS = ["tea", "teas", "milk", "jug"]
Said = Mapping[str, Mapping[UUID, tuple[int, int]]]

said_of_texts = st.dictionaries(
    st.sampled_from(TERMS),
    st.dictionaries(
        st.sampled_from(IDS), st.tuples(st.integers(1, 9), st.integers(1, 300)), min_size=1
    ),
)


def word(terms: list[str], wholes: int) -> Word:
    return Word(tuple(terms[:wholes]), tuple(terms[wholes:]))


words = st.builds(
    word, st.lists(st.sampled_from(TERMS), min_size=1, unique=True), st.integers(1, 2)
)
queries = st.lists(words, min_size=1)


def posted(said: Mapping[UUID, tuple[int, int]]) -> Posted:
    frequencies, lengths = np.array(list(said.values()), dtype=np.float64).T
    return Posted(id_bytes(list(said)), saturated(frequencies, lengths))


def plain(query: Sequence[Word], said: Said, texts: int, each: UUID) -> list[float]:
    """What each word is worth in one text."""

    def rarity(term: str) -> float:
        having = len(said.get(term, {}))
        return log(1 + (max(texts, having) - having + 0.5) / (having + 0.5))

    def value(term: str) -> float:
        if each not in said.get(term, {}):
            return 0.0
        frequency, length = said[term][each]
        return frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * max(1.0, length / 64)))

    def weight(word: Word) -> float:
        weight = min(map(rarity, word.forms))
        return min(weight, sum(map(rarity, word.parts))) if word.parts else weight

    def share(word: Word) -> float:
        total = sum(map(rarity, word.parts))
        return sum(0.7 * rarity(part) / total * min(1, value(part)) for part in word.parts)

    return [weight(word) * max(share(word), *map(value, word.forms), 0.0) for word in query]


@given(queries, said_of_texts, st.integers(0, 20))
def test_a_word_is_worth_what_the_plain_formula_says(
    query: list[Word], said: Said, texts: int
) -> None:
    asked = {term for word in query for term in word.terms}
    read = {term: posted(found) for term, found in said.items() if term in asked}
    worth = Worth(query, read, {}, texts)

    found = worth.of(IDS, [])

    expected = [plain(query, said, texts, each) for each in IDS]
    assert found.worth == pytest.approx(np.array(expected))
    having = {each for term in read for each in said[term]}
    ids, scores = worth.best(len(worth))
    assert set(ids_of(ids)) == having
    assert len(worth) == len(having)
    assert scores.tolist() == pytest.approx(
        sorted((sum(expected[IDS.index(each)]) for each in having), reverse=True)
    )
    for most in range(1, len(worth)):
        few, their_scores = worth.best(most)
        assert few.tolist() == ids[:most].tolist()
        assert their_scores.tolist() == scores[:most].tolist()


@given(queries, said_of_texts, st.sampled_from(TERMS))
def test_a_term_that_was_not_read_is_worth_the_same(
    query: list[Word], said: Said, rest: str
) -> None:
    asked = {term for word in query for term in word.terms}
    postings = {term: posted(found) for term, found in said.items() if term in asked}
    read = {term: found for term, found in postings.items() if term != rest}
    counts = {term: len(found) for term, found in said.items()}
    further = [
        Further(IDS.index(each), rest, *told)
        for each, told in said.get(rest, {}).items()
        if rest in asked
    ]

    whole = Worth(query, postings, {}, 20)
    parted = Worth(query, read, counts, 20)

    assert parted.of(IDS, further).worth == pytest.approx(whole.of(IDS, []).worth)
    assert parted.coverage(parted.of(IDS, further)) == pytest.approx(
        whole.coverage(whole.of(IDS, []))
    )


@given(queries, said_of_texts, st.sets(st.sampled_from(IDS)), st.sets(st.sampled_from(TERMS)))
def test_words_are_worth_the_same_among_some_of_the_texts(
    query: list[Word], said: Said, some: set[UUID], sampled: set[str]
) -> None:
    asked = {term for word in query for term in word.terms}
    read = {term: posted(found) for term, found in said.items() if term in asked}
    whole = Worth(query, read, {}, 20)
    parted = Worth(
        query,
        {
            term: Posted(found.ids[:1], found.saturated[:1], is_whole=False)
            if term in sampled
            else found
            for term, found in read.items()
        },
        {term: len(found) for term, found in said.items()},
        20,
    )
    theirs = {
        term: {each: told for each, told in said[term].items() if each in some}
        for term in parted.sampled
    }

    left = parted.among(
        id_bytes(list(some)), {term: posted(found) for term, found in theirs.items() if found}
    )

    ids, scores = whole.best(len(whole))
    among = [
        (each, score)
        for each, score in zip(ids_of(ids), scores.tolist(), strict=True)
        if each in some
    ]
    found, worth = left.best(len(IDS))
    assert (ids_of(found), worth.tolist()) == (
        [each for each, _ in among],
        pytest.approx([score for _, score in among]),
    )


def test_many_words_in_many_texts_take_no_table_of_both() -> None:
    ids = np.sort(np.frombuffer(np.random.default_rng(1).bytes(16 * 15_000), "S16"))
    once = np.ones(5)
    postings = {str(word): Posted(ids[3 * word : 3 * word + 5], once) for word in range(4_000)}
    query = [Word((term,)) for term in postings]

    tracemalloc.start()
    worth = Worth(query, postings, {}, 15_000)
    worth.best(60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # The table would be 4,000 x 12,000 numbers of 8 bytes.
    assert peak < 20_000_000


def test_what_has_every_word_is_covered_whole_and_what_has_none_not_at_all() -> None:
    said = {"tea": {IDS[0]: (1, 5), IDS[1]: (1, 5)}, "milk": {IDS[0]: (2, 5)}}
    worth = Worth(
        [Word(("tea", "teas")), Word(("milk",))],
        {term: posted(each) for term, each in said.items()},
        {},
        9,
    )

    covered = worth.coverage(worth.of(IDS[:3], [])).tolist()

    assert covered[0] == pytest.approx(1)
    assert 0 < covered[1] < 0.5  # the commoner word weighs less
    assert covered[2] == 0


def test_a_code_is_worth_more_than_its_parts_and_they_add_up() -> None:
    said = {
        "10.20.1.14": {IDS[0]: (1, 5)},
        "10": dict.fromkeys(IDS[:4], (1, 5)),
        "20": dict.fromkeys(IDS[:4], (1, 5)),
        "14": {IDS[0]: (1, 5), IDS[1]: (1, 5)},
        # As in the frames of a traceback.
        "1": {IDS[0]: (1, 5), IDS[2]: (90, 300)},
    }
    code = Word(("10.20.1.14",), ("10", "20", "1", "14"))
    worth = Worth([code], {term: posted(each) for term, each in said.items()}, {}, 9)

    covered = worth.coverage(worth.of(IDS[:4], [])).tolist()

    assert covered[0] == 1
    assert 0.7 > covered[1] > covered[3] > 0
    assert 0.7 > covered[2] > covered[3]
    assert worth.best(9)[0].tolist()[0] == id_bytes(IDS[:1]).tolist()[0]


def test_what_says_when_is_no_part_of_what_is_covered() -> None:
    said = {"cook": {IDS[0]: (1, 5)}, "saturday": {IDS[1]: (1, 5)}}
    query = [Word(("cook",)), Word(("saturday",), is_aside=True)]
    worth = Worth(query, {term: posted(each) for term, each in said.items()}, {}, 9)

    assert worth.coverage(worth.of(IDS[:2], [])).tolist() == [1, 0]
    assert worth.of(IDS[:2], []).worth.sum(axis=1)[1] > 0
    alone = Worth(query[1:], {"saturday": posted(said["saturday"])}, {}, 9)
    assert alone.coverage(alone.of(IDS[:2], [])).tolist() == [0, 1]


_ECHO = "SELECT array_send(%s::uuid[]), array_send(%s::integer[]), %s::uuid[], %s::float8[]"


async def test_arrays_travel_to_the_database_and_back(engine: Engine, caller: Caller) -> None:
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
