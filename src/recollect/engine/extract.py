"""A summary without a model: the sentences that carry a conversation, and who said them. Pure.

Nothing is rewritten. Whole sentences are taken as they were said, in order, each with its speaker:
numbers, names and dates stay what they were, and nobody is made to say what they did not.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.engine.stopwords import STOP_WORDS
from recollect.engine.words import terms

# A summary grows with the conversation, slowly: from two sentences to six.
_FEWEST, _MOST = 2, 6
_SENTENCES_PER_MESSAGE = 0.25

# What makes a sentence worth more than its words: something exact in it, or being what the
# conversation began with.
_EXACT = 0.15
_OPENING = 0.6
# A long sentence says more, up to here; a very long one says too much at once.
_FULL_WORDS = 8
_LONGEST_WORDS = 60
# An answer shorter than this says nothing without its question.
_FEW_WORDS = 6
# A sentence that repeats what is already taken adds nothing.
_REPEATED = 0.6

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKUP = re.compile(r"^\s{0,3}(?:#{1,6}|[-*+•]|\d{1,2}[.)])\s+|\*\*|__|`", re.MULTILINE)
# Each part ends before what could begin another: a text of brackets alone is read once.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\)")
_SPACES = re.compile(r"\s+")

# Where one sentence ends: after a mark and before a blank, but not after an abbreviation.
_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*(?:\s+|(?<=[。！？])|$)|\n+")
_UNFINISHED = re.compile(
    r"(?:^|[\s(\"“])(?:(?-i:[A-HJ-Z])|mr|mrs|ms|dr|prof|st|vs|etc|approx|inc|ltd|dept|e\.g|i\.e"
    r"|a\.m|p\.m|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|z\.b|bzw|usw|nr|ca)\.$",
    re.IGNORECASE,
)
_LONGEST_UNFINISHED = 12
_WORD = re.compile(r"[^\W_]+(?:['’.,:/-][^\W_]+)*")
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_NAME = re.compile(r"(?<=[^\W_][\s,;:(])[A-Z][^\W\d_]+")
_REPLY = re.compile(r"\W*(?:yes|yeah|yep|no|nope|nah|sure|of course)\b", re.IGNORECASE)
_FINISHED = re.compile(r"[.!?…。！？:;][\"'”’)\]]*$")
_QUESTION = re.compile(r"[?？؟][\"'”’)\]]*$")
# What people say without saying anything.
_PHATIC = re.compile(
    # Each taken once, the longer of two that begin alike first: where "goodbye" may also be "good"
    # and "bye", the time that a sentence of such words takes doubles with every one of them.
    r"^\W*+(?:(?>oh|well|ok(?:ay)?|yes|yeah|yep|no problem|nope|no|sure|right|exactly|really|great"
    r"|nice|cool|fine|perfect|wow|lol|haha+|hm+|uh|um|hi|hello|hey|bye|goodbye"
    r"|good (?:morning|afternoon|evening|night|idea|luck)|good|thank you|thanks?"
    r"|you'?re welcome|my pleasure|please|sorry|excuse me|i see|i know|i agree|of course"
    r"|all right|alright|sounds (?:good|great)|that'?s (?:great|good|nice|right|true|fine|cool|all)"
    r"|how are you(?: doing| today)*"
    r"|see you(?: \w+)?|take care|have a (?:nice|good|great) \w+|so much|very much|a lot|then|there"
    r"|sir|madam|ma'?am|i'?m fine|and you|what about you|you too|me too)\W*+)+$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody said."""

    speaker: str
    text: str


def summary_of(lines: Sequence[Line]) -> str:
    """What was said, in a few of its own sentences; "" when nothing was."""
    sentences = [each for number, line in enumerate(lines) for each in _sentences(number, line)]
    if not sentences:
        return ""
    wanted = _wanted(len({each.message for each in sentences}))
    taken = _with_company(_best(sentences, wanted), sentences)
    return _written([sentences[number] for number in sorted(taken)])


def main_sentences(text: str, most: int) -> list[str]:
    """The sentences of one text that carry the most of it, in order; no questions among them."""
    sentences = [each for each in _sentences(0, Line("", text)) if not each.is_question]
    return (
        [sentences[number].text for number in sorted(_best(sentences, most))] if sentences else []
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    message: int
    speaker: str
    text: str
    words: int
    stems: frozenset[str]
    exact: int
    is_question: bool
    is_phatic: bool


def _sentences(number: int, line: Line) -> Iterator[_Sentence]:
    for text in split_sentences(line.text):
        words = _WORD.findall(text)
        if not words:
            continue
        yield _Sentence(
            message=number,
            speaker=line.speaker,
            text=text,
            words=len(words),
            stems=frozenset(terms(_content(words))),
            exact=len(_NUMBER.findall(text)) + len(_NAME.findall(text)),
            is_question=bool(_QUESTION.search(text)),
            is_phatic=bool(_PHATIC.match(text)),
        )


def split_sentences(text: str) -> list[str]:
    """The sentences of a message, without its markup and its code."""
    plain = _LINK.sub(r"\1", _MARKUP.sub("", _CODE.sub(" ", text)))
    found: list[str] = []
    begin = 0
    for end in _END.finditer(plain):
        # Its last word suffices: a text of nothing but initials is one sentence, looked at once.
        last = plain[max(begin, end.start() - _LONGEST_UNFINISHED) : end.end()]
        if "\n" not in end.group() and _UNFINISHED.search(last.rstrip()):
            continue
        found.append(plain[begin : end.end()])
        begin = end.end()
    found.append(plain[begin:])
    return [clean for piece in found if (clean := _SPACES.sub(" ", piece).strip())]


def _content(words: Sequence[str]) -> str:
    return " ".join(word for word in words if word.lower() not in STOP_WORDS["english"])


def _wanted(messages: int) -> int:
    return min(max(_FEWEST, math.ceil(messages * _SENTENCES_PER_MESSAGE)), _MOST)


def _best(sentences: Sequence[_Sentence], wanted: int) -> list[int]:
    """The sentences that carry the most of what is talked about, each adding something."""
    heard = Counter(stem for each in sentences for stem in each.stems)
    first = next((each.message for each in sentences if not each.is_phatic), None)
    scores = [_score(each, heard, first) for each in sentences]
    taken: list[int] = []
    for number in sorted(range(len(sentences)), key=lambda each: (-scores[each], each)):
        if len(taken) >= wanted or scores[number] <= 0:
            break
        if not any(_repeats(sentences[number], sentences[other]) for other in taken):
            taken.append(number)
    return taken or [max(range(len(sentences)), key=lambda each: (sentences[each].words, -each))]


def _score(sentence: _Sentence, heard: Counter[str], first: int | None) -> float:
    if sentence.is_phatic or not sentence.stems:
        return 0.0
    # What is spoken of again and again is what it is about.
    weight = sum(math.log1p(heard[stem]) for stem in sentence.stems) / len(sentence.stems)
    fullness = min(sentence.words, _FULL_WORDS) / _FULL_WORDS
    if sentence.words > _LONGEST_WORDS:
        fullness *= _LONGEST_WORDS / sentence.words
    bonus = _EXACT * min(sentence.exact, 3) + _OPENING * (sentence.message == first)
    return weight * fullness * (1 + bonus)


def _repeats(sentence: _Sentence, other: _Sentence) -> bool:
    shared = len(sentence.stems & other.stems)
    return shared >= _REPEATED * min(len(sentence.stems), len(other.stems))


def _with_company(taken: Sequence[int], sentences: Sequence[_Sentence]) -> set[int]:
    """A short answer means nothing without its question, nor a question without its answer."""
    whole = set(taken)
    for number in taken:
        sentence = sentences[number]
        if sentence.is_question:
            whole.update(_answer(number, sentences))
        elif number and (sentence.words < _FEW_WORDS or _REPLY.match(sentence.text)):
            before = sentences[number - 1]
            if before.is_question and before.speaker != sentence.speaker:
                whole.add(number - 1)
    return whole


def _answer(question: int, sentences: Sequence[_Sentence]) -> Iterator[int]:
    """What the other side said to it: one sentence, or "No." and what explains it."""
    for number in range(question + 1, min(question + 3, len(sentences))):
        each = sentences[number]
        if each.speaker == sentences[question].speaker or each.is_question:
            return
        yield number
        if not each.is_phatic:
            return


def _written(sentences: Sequence[_Sentence]) -> str:
    parts: list[str] = []
    speaker = None
    for each in sentences:
        text = each.text if _FINISHED.search(each.text) else f"{each.text}."
        verb = "asks" if each.is_question else "says"
        parts.append(text if each.speaker == speaker else f"{each.speaker} {verb}: {text}")
        speaker = each.speaker
    return " ".join(parts)
