"""The local distiller: what people state outright, as sentences that stand alone. No model. Pure.

`statements` says which sentences say something about whoever says them (preferences, facts,
decisions, goals, plans), `retelling` turns them into the third person with absolute dates.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from recollect.engine.extract import main_sentences
from recollect.engine.retelling import dated, spelt_out, third_person
from recollect.engine.statements import is_material, rule_for

# What no one sentence of a memory needs to exceed.
LONGEST = 2_000
_LONGEST_SENTENCE = 400
_MOST_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement to remember, the words it rests on, and the slot it fills if it has one."""

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
# Two statements joined by "and" are two statements.
_SENTENCES = re.compile(
    r"(?<=[.!?])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\be\.g\.)(?<!\bi\.e\.)"
    r"\s+(?=[A-Z\"“'(])|\n+|(?<=[.!?])\s*$|,? and (?=(?:I|my)\b)|; (?=(?:I|my)\b)",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>]|\d+[.)])\s+|^#+\s")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)\*(?=\w)|(?<=[\w.!?])\*(?!\w)")
# "It is the best, you know?" asks nothing.
_TAG = re.compile(r",? (?:you know|you see|right|okay|ok|yeah|innit)\?$", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]*)`")
_QUOTED = re.compile(r'"[^"\n]{20,}"|“[^”\n]{20,}”')
# Nobody types more than this in one go; people write above and below what they paste.
_LONGEST_SAID = 2_000
_OWN_END = 500
_QUOTED_LINE = re.compile(r"^[^\S\n]*+>.*$", re.MULTILINE)


def distilled(text: str, said_at: datetime) -> list[Candidate]:
    """What the text states outright, in order, each once."""
    found: list[Candidate] = []
    seen: set[str] = set()
    for quote in _statements(text):
        sentence = spelt_out(quote)
        rule = rule_for(sentence)
        if rule is None:
            continue
        content = third_person(dated(sentence, said_at))
        if content.casefold() in seen or not _stands_alone(content, sentence):
            continue
        seen.add(content.casefold())
        found.append(Candidate(content, rule.category, quote, rule.slot, _brief(content)))
        if len(found) == _MOST_CANDIDATES:
            break
    return found


# Of what a model made of much, the few sentences that say most.
_MOST_CONCLUSIONS = 5
_FEWEST_WORDS = 6
_OF_THE_MODEL = re.compile(r"\b(?:I|I'm|I'll|I've|me|my|you|your|let's)\b", re.IGNORECASE)


def concluded(text: str) -> list[Candidate]:
    """The outcome of a turn in the model's own main sentences, those that stand alone."""
    return [
        Candidate(sentence[:LONGEST], "fact", sentence, None, _brief(sentence))
        for sentence in main_sentences(text, _MOST_CONCLUSIONS)
        if len(sentence.split()) >= _FEWEST_WORDS
        and _stands_alone(sentence, sentence)
        and not _OF_THE_MODEL.search(sentence)
    ]


def _statements(text: str) -> Iterator[str]:
    for prose in _own_words(text):
        for part in _SENTENCES.split(prose):
            sentence = " ".join(_LIST_MARK.sub("", part).split())
            if is_material(sentence):
                return
            sentence = _TAG.sub(".", _OPENING.sub("", sentence).strip(' "“”'))
            if len(sentence) <= _LONGEST_SENTENCE and _HAS_WORDS.search(sentence):
                yield sentence


def _own_words(text: str) -> list[str]:
    """What is left without code and quotations; of a long text its ends, the rest was pasted."""
    prose = _INLINE_CODE.sub(r"\1", _CODE.sub(" ", text))
    prose = _EMPHASIS.sub("", _QUOTED_LINE.sub("", prose))
    if len(prose) <= _LONGEST_SAID:
        return [_QUOTED.sub(" ", prose)]
    begin, end = prose[:_OWN_END], prose[-_OWN_END:]
    # Whole sentences only.
    return [_QUOTED.sub(" ", begin.rpartition("\n")[0]), _QUOTED.sub(" ", end.partition("\n")[2])]


_STARTS_LOOSE = re.compile(
    r"^(?:it|they|he|she|there)\b|^(?:this|that|these|those)(?:'s\b| (?:is|are|was|were|has|have"
    r"|will|would|can|could|should|must|not|\w+[^s\W]s)\b)",
    re.IGNORECASE,
)


# In a short sentence nothing says what these are.
_POINTS = re.compile(r"\b(?:this|that|it|these|those|them)(?: \w+ed)?[.!,;”]*$", re.IGNORECASE)
_SHORT = 9


def _stands_alone(sentence: str, said: str) -> bool:
    """Whether it can be understood without what came before it.

    `said` is the same before it was retold: there, "them" is not whoever says it.
    """
    is_pointing = len(sentence.split()) <= _SHORT and bool(_POINTS.search(said))
    return not is_pointing and not _STARTS_LOOSE.match(sentence)


def _brief(content: str) -> str:
    return content if len(content) <= 80 else content[:79].rsplit(" ", 1)[0] + "…"
