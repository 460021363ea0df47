"""LIKE patterns for literal text."""

from collections.abc import Sequence


def containing_patterns(texts: Sequence[str]) -> list[str]:
    """Return a pattern for each text."""
    return [containing_pattern(text) for text in texts]


def containing_pattern(text: str) -> str:
    """Return a LIKE pattern that matches texts containing `text` literally."""
    escaped = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"
