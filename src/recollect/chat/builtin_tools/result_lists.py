"""Results of built-in tools as numbered lists for a model. Pure functions."""

import re
from textwrap import indent

from recollect.core.domain import Memory
from recollect.core.prompt_fence import clean_text, disarm_fences

# An entry shows at most this much of a text. No chunk of a document is longer.
_MAX_TEXT_CHARACTERS = 2_000
_MAX_LABEL_CHARACTERS = 500
# The start of a heading or an entry in a result list.
_LIKE_AN_ENTRY = re.compile(r"#|\d+\. ")


def numbered_list(heading: str, entries: list[str], offset: int) -> str:
    """Return a heading and the entries, numbered from the offset."""
    numbered = [f"{number}. {entry}" for number, entry in enumerate(entries, start=offset + 1)]
    return "\n".join([heading, *(numbered or ["Nothing was found."])])


def list_entry(name: str, label: str, score: float, text: str) -> str:
    """Format one entry of a list so that no line of its text looks like an entry or a heading."""
    text = clean_text(text, _MAX_TEXT_CHARACTERS)
    label = clean_text(label, _MAX_LABEL_CHARACTERS).replace("\n", " ")
    if "\n" in text or _LIKE_AN_ENTRY.match(text):
        text = indent(text, "   ")
    return disarm_fences(f"**{name}** ({label}, score {score:.2f})\n{text}")


def category_of(memory: Memory) -> str:
    """Return the category that an entry shows."""
    return memory.category or "uncategorized"


def memory_id(memory: Memory) -> str:
    """Return the id that the model reads."""
    return f"mem_{memory.code}"
