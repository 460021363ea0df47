"""What the built-in model's cosines mean: two monotone maps, fitted by `bench/calibrate.py`.

Raw cosines of this model crowd together; the maps spread them so that 0.6 reads as relevant, 0.7
as clearly relevant and 0.9 as nearly the same statement. How: `docs/calibration.md`.
"""

from itertools import pairwise

Anchors = tuple[tuple[float, float], ...]

# (cosine, shown score), both rising; straight lines between, clamped outside.
RELEVANCE: Anchors = (
    (-0.13, 0.00),  # hardly an unrelated passage is lower
    (0.26, 0.50),  # 1 in 100 unrelated ones is higher
    (0.36, 0.75),  # half of the passages that hold the answer are higher
    (0.69, 0.90),  # a question that says nearly what the passage says
    (0.79, 1.00),  # the passage itself, asked as a question
)
LIKENESS: Anchors = (
    (-0.01, 0.00),  # two sentences from anywhere
    (0.70, 0.50),  # the same topic
    (0.76, 0.60),  # much the same, with a difference that matters
    (0.85, 0.90),  # where people begin to say that both mean the same
    (0.999, 1.00),  # itself, after a round trip through half floats
)

# Statements with nothing in common but being everyday language. What their vectors share is what
# every vector of this model shares: it says nothing about meaning, is stronger in long and chatty
# texts, and so lifts an unrelated one above a related one. The embedder takes most of it away.
# Written for this; any such list does (`docs/calibration.md`). Changing it changes the space.
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
# Of what they share; from 0.7 to 1.0 makes little difference.
SHARE_REMOVED = 0.8


def relevance(cosine: float) -> float:
    """How well a passage answers a question, 0 to 1."""
    return interpolated(RELEVANCE, cosine)


# Below this hardly anything that answers is found: the floor of a generous search.
LEAST = 0.5


def may_answer(cosine: float) -> bool:
    """Whether a passage may be relevant to a question at all."""
    return relevance(cosine) >= LEAST


def likeness(cosine: float) -> float:
    """How nearly two passages say the same, 0 to 1."""
    return interpolated(LIKENESS, cosine)


def interpolated(anchors: Anchors, cosine: float) -> float:
    """The height at `cosine` of the line through the anchors."""
    if cosine <= anchors[0][0]:
        return anchors[0][1]
    # By hand: a handful of anchors is passed sooner than a search for the right ones begins.
    for (low, bottom), (high, top) in pairwise(anchors):
        if cosine < high:
            return bottom + (top - bottom) * (cosine - low) / (high - low)
    return anchors[-1][1]
