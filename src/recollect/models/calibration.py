"""Map the built-in model's cosines to scores: two monotone maps, fitted by `bench/calibrate.py`.

The raw cosines of this model lie close together. The maps spread them so that 0.6 means relevant,
0.7 clearly relevant and 0.9 nearly the same statement. The method is in `docs/calibration.md`.
"""

from itertools import pairwise

Anchors = tuple[tuple[float, float], ...]

# (cosine, score), both increasing; linear in between, clamped outside.
RELEVANCE: Anchors = (
    (-0.13, 0.00),  # hardly any unrelated passage is lower
    (0.26, 0.50),  # 1 in 100 unrelated passages is higher
    (0.36, 0.75),  # half of the passages that contain the answer are higher
    (0.69, 0.90),  # the question nearly repeats the passage
    (0.79, 1.00),  # the passage itself as a question
)
LIKENESS: Anchors = (
    (-0.01, 0.00),  # two random sentences
    (0.70, 0.50),  # the same topic
    (0.76, 0.60),  # similar, with a difference that matters
    (0.85, 0.90),  # people judge that both mean the same
    (0.999, 1.00),  # the same text, after a round trip through half floats
)

# Unrelated statements in everyday language. Their mean vector is a component that every vector of
# this model shares. It carries no meaning and is stronger in long, chatty texts, so it can rank an
# unrelated text above a related one. The embedder removes most of it. The list was written for this
# purpose; any such list works (`docs/calibration.md`). Changing it changes the vector space.
EVERYDAY = (
    "I prefer short answers.",
    "The user lives in a small town near the coast.",
    "We decided to move the meeting to Thursday.",
    "My sister is getting married in June.",
    "The server runs on port 8080.",
    "She works as a teacher at a primary school.",
    "He was diagnosed with asthma as a child.",
    "They are planning a trip to Japan next spring.",
    "The budget for this quarter is 40,000 euros.",
    "I usually run five kilometres in the morning.",
    "The build fails when the cache is cold.",
    "Her favourite film is an old black and white comedy.",
    "The contract ends on the last day of the year.",
    "I don't like spicy food very much.",
    "Our cat was ill last week but is better now.",
    "The report should be written in plain English.",
    "He asked me to remind him about the dentist.",
    "The new phone has a better camera than the old one.",
    "We use a shared calendar for holidays.",
    "My first car was a red hatchback.",
    "The customer wants a refund for the broken lamp.",
    "She is learning to play the piano.",
    "The library needs a newer version of the compiler.",
    "I finished reading that book about the history of bread.",
    "It rained all weekend so we stayed at home.",
    "The password has to be changed every three months.",
    "He thinks the project will take six weeks.",
    "Thank you, that was really helpful.",
    "The team of four engineers works remotely.",
    "I want to save money for a house.",
    "The train leaves at ten past seven.",
    "Their son starts school in September.",
)
# The share of that mean vector to remove. Values from 0.7 to 1.0 make little difference.
SHARE_REMOVED = 0.8


def relevance(cosine: float) -> float:
    """How well a passage answers a question, 0 to 1."""
    return interpolate(RELEVANCE, cosine)


# Hardly any passage below this answers the question. This is the floor of an explicit search.
RELEVANCE_FLOOR = 0.5


def may_answer(cosine: float) -> bool:
    """Whether a passage may be relevant to a question at all."""
    return relevance(cosine) >= RELEVANCE_FLOOR


def likeness(cosine: float) -> float:
    """How similar two passages are in meaning, 0 to 1."""
    return interpolate(LIKENESS, cosine)


def interpolate(anchors: Anchors, cosine: float) -> float:
    """Return the value at `cosine` of the piecewise linear map through the anchors."""
    if cosine <= anchors[0][0]:
        return anchors[0][1]
    # A linear scan: with a handful of anchors it is faster than a binary search.
    for (low, bottom), (high, top) in pairwise(anchors):
        if cosine < high:
            return bottom + (top - bottom) * (cosine - low) / (high - low)
    return anchors[-1][1]
