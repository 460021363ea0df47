"""Special kinds of turn: the instructions for the model, and the label of what is learnt.

Every turn learns from the user's text. Only these turns also learn from the *model's* answer; such
memories are labelled `auto_` plus the kind.
"""

from collections.abc import Mapping

# Shorter answers are not distilled.
MIN_OUTCOME_CHARACTERS = 200
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


def outcome_label(kind: str) -> str:
    """The label of memories that are distilled from a turn of this kind."""
    return f"{_PREFIX}{kind}"


def is_outcome(label: str) -> bool:
    """Whether a label says that the memory was distilled from a special turn."""
    return label.startswith(_PREFIX)


def has_outcome(kind: str, answer: str) -> bool:
    """Whether the model's answer in a turn of this kind is distilled."""
    return kind in INSTRUCTIONS and len(answer) >= MIN_OUTCOME_CHARACTERS
