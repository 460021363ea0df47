"""Kinds of turn besides plain talk: what the model is asked for, and that its outcome is kept.

What the user says is learnt from in every turn. What the *model* says is learnt from in these
alone, under a label of its own: `auto_` and the kind.
"""

from collections.abc import Mapping

# What is shorter is no outcome.
SHORTEST_OUTCOME = 200
_PREFIX = "auto_"

INSTRUCTIONS: Mapping[str, str] = {
    "deep_think": (
        "Think this through before you answer: the considerations for and against, what is known "
        "and what is assumed. Then give your conclusions, each as a sentence that stands alone."
    ),
    "research": (
        "Look for what is known about this in the workspace before you answer, with several "
        "searches in different words. Give your findings, each as a sentence that stands alone, "
        "and name where each comes from. Say what could not be found."
    ),
    "compaction": (
        "Summarise the conversation so far: what was decided, what is planned, what was stated as "
        "fact, what is open. Each as a sentence that stands alone, with names and dates."
    ),
}


def label(kind: str) -> str:
    """What memories that come of such a turn are labelled with."""
    return f"{_PREFIX}{kind}"


def is_outcome(label: str) -> bool:
    """Whether what has this label came of a turn of some kind."""
    return label.startswith(_PREFIX)


def has_outcome(kind: str, said: str) -> bool:
    """Whether what the model said in a turn of this kind is to be distilled."""
    return kind in INSTRUCTIONS and len(said) >= SHORTEST_OUTCOME
