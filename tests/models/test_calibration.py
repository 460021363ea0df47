"""The calibrated scores of the real model mean what the specification assumes, on our own pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.models.builtin_embedder import BuiltinEmbedder
from recollect.models.calibration import LIKENESS, RELEVANCE, likeness, relevance
from recollect.models.embedder import Purpose

ANSWERED = {
    "what theme does the user like?": "User prefers dark mode",
    "where does Ada live?": "Ada moved to Lisbon in March 2024",
    "what should I not cook for Tom?": "Tom is allergic to peanuts",
    "which database do we use?": "The team decided to store everything in PostgreSQL",
    "when is the launch?": "The product launch is planned for 12 September",
    "what is my dog called?": "The user's dog is named Biscuit",
    "how do I like my coffee?": "User drinks coffee black, without sugar",
    "who is my manager?": "Priya Nair is the user's line manager",
    "what language do we write the backend in?": "The backend is written in Rust",
    "what car does the user drive?": "User bought a blue Volvo V60 last year",
    "favourite food": "User loves Thai green curry",
    "does the user have children?": "User has two daughters, aged 4 and 7",
    "what time do we have standup?": "Daily stand-up is at 9:30 on weekdays",
    "how do I deploy the site?": "Deploy by running `make release` on the main branch",
    "which editor do I use?": "User writes code in Neovim",
    "what is the office wifi password?": "The office Wi-Fi password is on a card in the kitchen",
    "what's the user's job?": "User works as a nurse in a children's hospital",
    "why did we drop Redis?": "We removed Redis because PostgreSQL was fast enough as a queue",
    "when is Mum's birthday?": "Mother's birthday is on the 3rd of May",
    "what am I training for?": "User is preparing for the Berlin marathon",
}
UNRELATED = [
    "what is the capital of France?",
    "how many planets are there?",
    "write a haiku about the sea",
    "convert 10 miles to kilometres",
    "what is the boiling point of water?",
    "explain photosynthesis",
    "who won the world cup in 1998?",
    "translate good morning into German",
]


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_higher_cosine_never_has_a_lower_score(one: float, other: float) -> None:
    low, high = sorted((one, other))

    assert 0 <= relevance(low) <= relevance(high) <= 1
    assert 0 <= likeness(low) <= likeness(high) <= 1


@pytest.mark.parametrize("anchors", [RELEVANCE, LIKENESS])
def test_anchors_increase_on_both_axes(anchors: tuple[tuple[float, float], ...]) -> None:
    cosines, scores = zip(*anchors, strict=True)

    assert list(cosines) == sorted(set(cosines))
    assert list(scores) == sorted(set(scores))
    assert (scores[0], scores[-1]) == (0.0, 1.0)


def test_anchors_are_matched_exactly() -> None:
    assert [relevance(cosine) for cosine, _ in RELEVANCE] == [shown for _, shown in RELEVANCE]
    assert [likeness(cosine) for cosine, _ in LIKENESS] == [shown for _, shown in LIKENESS]


@pytest.mark.anyio
async def test_answers_to_everyday_questions_score_as_relevant(
    builtin: BuiltinEmbedder,
) -> None:
    questions = np.array(await builtin.embed(list(ANSWERED), Purpose.QUERY))
    facts = np.array(await builtin.embed(list(ANSWERED.values()), Purpose.PASSAGE))

    cosines = questions @ facts.T

    shown = {q: relevance(float(cosines[n, n])) for n, q in enumerate(ANSWERED)}
    assert shown["what theme does the user like?"] >= 0.7
    assert float(np.median(list(shown.values()))) >= 0.7
    # Six score lower, down to 0.38: the model does not know that Neovim is an editor.
    assert sum(score >= 0.6 for score in shown.values()) >= 14
    assert int((cosines.argmax(axis=1) == np.arange(len(ANSWERED))).sum()) >= 19


@pytest.mark.anyio
async def test_no_fact_is_relevant_to_an_unrelated_question(builtin: BuiltinEmbedder) -> None:
    questions = await builtin.embed(UNRELATED, Purpose.QUERY)
    facts = await builtin.embed(list(ANSWERED.values()), Purpose.PASSAGE)

    shown = [[relevance(float(q @ fact)) for fact in facts] for q in questions]

    assert max(map(max, shown)) < 0.5
    assert float(np.median(shown)) < 0.25


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("left", "right", "low", "high"),
    [
        ("User prefers dark mode", "User prefers dark mode", 1.0, 1.0),
        ("User prefers dark mode", "The user likes dark mode", 0.9, 1.0),
        ("Ada takes her tea without milk", "Ada drinks tea with no milk", 0.9, 1.0),
        ("Tom is allergic to peanuts", "Tom has a peanut allergy", 0.9, 1.0),
        ("We use PostgreSQL", "The database is PostgreSQL", 0.9, 1.0),
        ("User prefers dark mode", "User prefers light mode", 0.8, 0.9),
        ("Ada lives in Lisbon", "Ada lives in Porto", 0.6, 0.9),
        ("Tom is allergic to peanuts", "Tom loves peanuts", 0.4, 0.7),
        ("User drives a Volvo", "User likes hiking", 0.0, 0.4),
        ("User works as a nurse", "The stand-up is at 9:30", 0.0, 0.2),
    ],
)
async def test_similarity_scores_of_everyday_statements(
    builtin: BuiltinEmbedder, left: str, right: str, low: float, high: float
) -> None:
    one, other = await builtin.embed([left, right], Purpose.PASSAGE)

    assert low <= likeness(float(one @ other)) <= high


@pytest.mark.anyio
async def test_a_vector_stored_as_half_floats_still_matches_itself(
    builtin: BuiltinEmbedder,
) -> None:
    [vector] = await builtin.embed(["Ada takes her tea without milk"], Purpose.PASSAGE)
    stored = vector.astype(np.float16).astype(np.float32)

    assert likeness(float(vector @ stored)) == 1.0
