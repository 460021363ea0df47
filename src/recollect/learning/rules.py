"""The rules of the local distiller: turn explicit statements into candidates. No model. Pure.

`statement_rules` decides which sentences state something about the speaker (preferences, facts,
decisions, goals, plans). `third_person` rewrites them in the third person with absolute dates.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from recollect.conversations.extractive_summary import main_sentences
from recollect.learning.statement_rules import is_material, rule_for
from recollect.learning.third_person import (
    expand_contractions,
    to_third_person,
    with_absolute_dates,
)

# The longest content of a learnt memory.
MAX_LENGTH = 2_000
_MAX_SENTENCE_LENGTH = 400
_MAX_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement to remember, the quote that supports it, and the slot it fills, if any."""

    content: str
    category: str
    quote: str
    slot: str | None = None
    summary: str | None = None


_HAS_WORDS = re.compile(r"\w+\W+\w+\W+\w+")
_OPENING = re.compile(
    r"^(?:(?:well|oh|ah|so|and|but|also|actually|by the way|btw|fyi|yes|yeah|yep|alright|sorry|hi|"
    r"hello|hey|good (?:morning|evening)|exactly|perfect|great|thanks|thank you|okay|ok|sure|"
    r"for your information|just so you know|please (?:remember|note)(?: that)?|remember(?: that)?|"
    r"note that|correction|honestly|to be honest|no (?:worries|problem|need to worry)"
    r"|g'day)\b[\s,.!:;-]*"
    r"|(?:no|nah|look|right|righto|now|then|fine|good|my (?:guy|friend|man|dear|"
    r"brother|sister)|bro|man|mate)[,.!:;-]\s*)+",
    re.IGNORECASE,
)
# Two statements joined by "and" are split.
_SENTENCES = re.compile(
    r"(?<=[.!?])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\be\.g\.)(?<!\bi\.e\.)"
    r"\s+(?=[A-Z\"“'(])|\n+|(?<=[.!?])\s*$|,? and (?=(?:I|my)\b)|; (?=(?:I|my)\b)",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>]|\d+[.)])\s+|^#+\s")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)\*(?=\w)|(?<=[\w.!?])\*(?!\w)")
# "It is the best, you know?" is not a question.
_QUESTION_TAG = re.compile(r",? (?:you know|you see|right|okay|ok|yeah|innit)\?$", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]*)`")
_QUOTED = re.compile(r'"[^"\n]{20,}"|“[^”\n]{20,}”')
# A longer text contains pasted material. People write above and below what they paste.
_MAX_TYPED_LENGTH = 2_000
_OWN_END_LENGTH = 500
_QUOTED_LINE = re.compile(r"^[^\S\n]*+>.*$", re.MULTILINE)


def distil_statements(text: str, said_at: datetime) -> list[Candidate]:
    """Return the explicit statements of the text, in order and without duplicates."""
    found: list[Candidate] = []
    seen: set[str] = set()
    for quote in _statements(text):
        sentence = expand_contractions(quote)
        rule = rule_for(sentence)
        if rule is None:
            continue
        content = to_third_person(with_absolute_dates(sentence, said_at))
        if content.casefold() in seen or not _is_self_contained(content, sentence):
            continue
        seen.add(content.casefold())
        found.append(Candidate(content, rule.category, quote, rule.slot, _shorten(content)))
        if len(found) == _MAX_CANDIDATES:
            break
    return found


# At most this many main sentences of a long outcome are kept.
_MAX_CONCLUSIONS = 5
_MIN_WORDS = 6
_FIRST_OR_SECOND_PERSON = re.compile(r"\b(?:I|I'm|I'll|I've|me|my|you|your|let's)\b", re.IGNORECASE)


def distil_outcome(text: str) -> list[Candidate]:
    """Return the main sentences of a turn's outcome that are self-contained."""
    return [
        Candidate(sentence[:MAX_LENGTH], "fact", sentence, None, _shorten(sentence))
        for sentence in main_sentences(text, _MAX_CONCLUSIONS)
        if len(sentence.split()) >= _MIN_WORDS
        and _is_self_contained(sentence, sentence)
        and not _FIRST_OR_SECOND_PERSON.search(sentence)
    ]


def _statements(text: str) -> Iterator[str]:
    for prose in _own_prose(text):
        for part in _SENTENCES.split(prose):
            sentence = " ".join(_LIST_MARK.sub("", part).split())
            if is_material(sentence):
                return
            sentence = _QUESTION_TAG.sub(".", _OPENING.sub("", sentence).strip(' "“”'))
            if len(sentence) <= _MAX_SENTENCE_LENGTH and _HAS_WORDS.search(sentence):
                yield sentence


def _own_prose(text: str) -> list[str]:
    """Return the text without code and quotations; for a long text only its beginning and end."""
    prose = _INLINE_CODE.sub(r"\1", _CODE.sub(" ", text))
    prose = _EMPHASIS.sub("", _QUOTED_LINE.sub("", prose))
    if len(prose) <= _MAX_TYPED_LENGTH:
        return [_QUOTED.sub(" ", prose)]
    begin, end = prose[:_OWN_END_LENGTH], prose[-_OWN_END_LENGTH:]
    # Whole sentences only.
    return [_QUOTED.sub(" ", begin.rpartition("\n")[0]), _QUOTED.sub(" ", end.partition("\n")[2])]


_STARTS_WITH_REFERENCE = re.compile(
    r"^(?:it|they|he|she|there)\b|^(?:this|that|these|those)(?:'s\b| (?:is|are|was|were|has|have"
    r"|will|would|can|could|should|must|not|\w+[^s\W]s)\b)",
    re.IGNORECASE,
)


# In a short sentence, nothing explains what these words refer to.
_ENDS_WITH_REFERENCE = re.compile(
    r"\b(?:this|that|it|these|those|them)(?: \w+ed)?[.!,;”]*$", re.IGNORECASE
)
_SHORT_SENTENCE_WORDS = 9


def _is_self_contained(sentence: str, original: str) -> bool:
    """Whether the sentence can be understood without the ones before it.

    `original` is the sentence before it was rewritten: there, "them" never means the speaker.
    """
    is_short = len(sentence.split()) <= _SHORT_SENTENCE_WORDS
    is_dangling = is_short and bool(_ENDS_WITH_REFERENCE.search(original))
    return not is_dangling and not _STARTS_WITH_REFERENCE.match(sentence)


def _shorten(content: str) -> str:
    return content if len(content) <= 80 else content[:79].rsplit(" ", 1)[0] + "…"
