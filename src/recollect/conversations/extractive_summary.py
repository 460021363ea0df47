"""A summary without a model: the sentences that carry a conversation, and who said them. Pure.

Nothing is rewritten. Whole sentences are taken as they were said, in order, each with its speaker:
numbers, names and dates stay what they were, and nobody is made to say what they did not. Only a
"well," at the head is left out, and what is longer than there is room for is cut, and shows it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recollect.keywords.stop_words import LANGUAGES_BY_WORD, STOP_WORDS
from recollect.keywords.tokenizer import terms

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
_MARKUP = re.compile(r"^\s{0,3}(?:#{1,6}|[-*+•])\s+|\*\*|__|`", re.MULTILINE)
_LIST_NUMBER = re.compile(r"^\s{0,3}(\d{1,2})[.)]\s+(?=(\w*+))", re.MULTILINE)
# Each part ends before what could begin another: a text of brackets alone is read once.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\)")
_SPACES = re.compile(r"\s+")

# Where a sentence may end: after a mark and before a blank, which some marks do without.
_END = re.compile(
    r"(?<=[.!?…؟۔।։。！？])(?P<closing>[\"'”’)\]»」』）]*+)(?:\s+|(?<=[。！？])|$)|\n+"
)
_BEFORE_WORD = re.compile(r"[\s(\[\"'“‘„«]")
_NEXT_WORD = re.compile(r"[(\[\"'“‘„«¿¡]*+([^\W_]++)")
_LONGEST_ABBREVIATION = 12
_SHORT_WORD = 4
# Somebody's name stands after these, whatever it looks like: "Dr. De Vries".
_TITLE = re.compile(
    r"mrs?|m[sx]|dra?|prof|rev|gen|capt|lt|sgt|gov|sen|st|hrn?|frl?|dipl|ing|mme|mlle|mgr|sra?|srta"
    r"|sigg?|sig\.ra|dott|dott\.ssa|avv|dhr|mevr|drs|проф|акад",
    re.IGNORECASE,
)
# Of the languages we stem, those that a capital letter may follow; before a small one or a digit
# every short word is taken for one.
_ABBREVIATION = re.compile(
    r"approx|vs|etc|inc|ltd|corp|dept|jr|ave|blvd|jan|feb|apr|jun|jul|aug|sept?|o[ck]t|nov|de[cz]"
    r"|bzw|usw|ca|evtl|ggf|inkl|exkl|bspw|vgl|sog|insb|allg|max|min|zzgl|abzgl|geb|str|nr|tel|abt"
    r"|mio|mrd|tsd|std|env|tél|bd|av|avda|ej|pág|núm|uds?|dpto|ecc|pag|bijv|blz|enz|incl|osv|kl"
    r"|f\.eks|p\.ej|esim|mm|ym|jne|np|tzn|itd|itp|ul|např|tzv|atd|apod|pl|stb|kb|vb|örn|bkz"
    r"|г|ул|стр|др|тыс|млн|млрд|руб"
    # "U.S.", "p.m.", "z.B."; and "1." or "24.12.", which in many languages begins a date.
    r"|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|(?:\d{1,2}\.)?\d{1,2}",
    re.IGNORECASE,
)
# Function words of so much of a text tell its language.
_LANGUAGE_CHARACTERS = 4_000
# A cut looks so far back for a better place.
_LONGEST_STEP = 40
_WITHIN_NUMBER = re.compile(r"\d[\d.,]|[.,]\d")
_ZERO_WIDTH_JOINER = "\u200d"
# Thai and Lao am, and the five colours of skin, are written after what they belong to.
_JOINING = "\u0e33\u0eb3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_WORD = re.compile(r"[^\W_]+(?:['’.,:/-][^\W_]+)*")
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_NAME = re.compile(r"(?<=[^\W_][\s,;:(])[A-Z][^\W\d_]+")
_REPLY = re.compile(r"\W*(?:yes|yeah|yep|no|nope|nah|sure|of course)\b", re.IGNORECASE)
_FINISHED = re.compile(r"[.!?…؟۔।։。！？:;][\"'”’)\]»」』）]*$")
_QUESTION = re.compile(r"[?？؟][\"'”’)\]»」』）]*$")
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
# What answers nothing: a greeting with whom it greets, and what is said to gain time.
_NO_ANSWER = re.compile(
    r"\W*+(?:(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|nice to (?:see|meet) you"
    r"|how are you)\b\W*+)++(?:(?:mrs?|ms|miss|dr|prof|professor)\b\W*+)?"
    r"(?:(?-i:[A-Z])\w*+\W*+){0,2}"
    r"|(?:(?:well|oh|okay|ok)\b\W*+)*+(?:let me (?:see|think|check)|let'?s see"
    r"|(?:just )?(?:a|one) (?:moment|minute|second))\b\W*+(?:(?:please|sir|madam|ma'am)\b\W*+)*+"
    r")$",
    re.IGNORECASE,
)
# What a sentence does without.
_HEAD = re.compile(
    r"(?:(?:well|oh|ah|aha|h++m++|u++[hm]++|wow|gee|hey|you know|you see|ach|tja|naja|äh++m?"
    r"|eh bien|bah|euh|bueno|pues|ay|ну|ой)\s?(?:,|…|\.\.\.)\s)++(?=\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """What somebody said."""

    speaker: str
    text: str


def summary_of(lines: Sequence[SpokenLine], longest: int | None = None) -> str:
    """What was said, in a few of its own sentences; "" when nothing was."""
    sentences = _sentences(lines)
    if not sentences:
        return ""
    wanted = _wanted(len({each.message for each in sentences}))
    taken = _with_company(_best(sentences, wanted), sentences)
    written = _written([sentences[number] for number in sorted(taken)])
    return " ".join(written if longest is None else fit_to_length(written, longest))


def main_sentences(text: str, most: int) -> list[str]:
    """The sentences of one text that carry the most of it, in order; no questions among them."""
    sentences = [each for each in _sentences([SpokenLine("", text)]) if not each.is_question]
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


def _sentences(lines: Sequence[SpokenLine]) -> list[_Sentence]:
    texts = [
        (number, text) for number, line in enumerate(lines) for text in split_sentences(line.text)
    ]
    function_words = STOP_WORDS[_language(" ".join(text for _, text in texts))]
    return [
        _sentence(number, lines[number].speaker, text, function_words)
        for number, text in texts
        if _WORD.search(text)
    ]


def _sentence(message: int, speaker: str, text: str, function_words: frozenset[str]) -> _Sentence:
    words = _WORD.findall(text)
    content = [word for word in words if word.lower() not in function_words]
    return _Sentence(
        message=message,
        speaker=speaker,
        text=text,
        words=len(words),
        stems=frozenset(terms(" ".join(content))),
        exact=len(_NUMBER.findall(text)) + len(_NAME.findall(text)),
        is_question=bool(_QUESTION.search(text)),
        is_phatic=bool(_PHATIC.match(text) or _NO_ANSWER.match(text)),
    )


def split_sentences(text: str) -> list[str]:
    """The sentences of a message, without its markup and its code."""
    unmarked = _without_list_numbers(_MARKUP.sub("", _CODE.sub(" ", text)))
    plain = _LINK.sub(r"\1", unmarked).strip()
    writing = _Writing(_language(plain), is_small=plain[:1].islower())
    found: list[str] = []
    begin = 0
    for end in _END.finditer(plain):
        if "\n" not in end.group() and _goes_on(plain, begin, end, writing):
            continue
        found.append(plain[begin : end.end()])
        begin = end.end()
    found.append(plain[begin:])
    return [clean for piece in found if (clean := _SPACES.sub(" ", piece).strip())]


@dataclass(frozen=True, slots=True)
class _Writing:
    """How a text is written: in which language, and whether its sentences begin small."""

    language: str
    is_small: bool


def _without_list_numbers(text: str) -> str:
    """A list counts its lines from one. Other numbers are told: "15. August" answers a question."""
    found = list(_LIST_NUMBER.finditer(text))
    numbers = [int(each[1]) for each in found]
    is_counting = all(after in {before + 1, 1} for before, after in pairwise([0, *numbers]))
    # What they all count, two days of August, is no list of steps.
    is_list = is_counting and len({each[2] for each in found}) > 1
    return _LIST_NUMBER.sub("", text) if is_list else text


def _language(text: str) -> str:
    votes = Counter[str]()
    for word in _WORD.findall(text[:_LANGUAGE_CHARACTERS]):
        votes.update(LANGUAGES_BY_WORD.get(word.lower(), ()))
    return max(STOP_WORDS, key=lambda language: votes[language])


def _goes_on(text: str, begin: int, end: re.Match[str], writing: _Writing) -> bool:
    """Whether a sentence goes on after a mark: after "Dr.", "U.S." or, in German, "am 1.".

    In doubt it does: two sentences taken for one still say what they said, half a one does not.
    """
    following = _NEXT_WORD.match(text, end.end())
    if following is None:
        return False
    word = following[1]
    is_small = word[0].islower()
    if end["closing"]:
        return is_small
    # The last word suffices: a text of nothing but initials is one sentence, looked at once.
    tail = text[max(begin, end.start() - _LONGEST_ABBREVIATION) : end.start()]
    last = _BEFORE_WORD.split(tail)[-1]
    if last.endswith(("..", "…")):
        return is_small
    if not last.endswith("."):
        return False
    before = last[:-1]
    if _TITLE.fullmatch(before):
        return True
    is_initial = len(before) == 1 and before.isupper() and before != "I"
    if is_initial or _ABBREVIATION.fullmatch(before):
        # It may end a sentence too: then one often begins with a word that no date or name has.
        is_alone = begin + len(last) == end.start()  # "1. The plan", "B. The other plan"
        is_function_word = writing.language in LANGUAGES_BY_WORD.get(word.lower(), ())
        is_next_initial = text.startswith(".", following.end())
        return is_alone or is_small or is_next_initial or not is_function_word
    is_short = len(before) <= _SHORT_WORD and before.isalnum()
    return is_short and (word[0].isdigit() or (is_small and not writing.is_small))


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
    left = 2
    for number in range(question + 1, len(sentences)):
        each = sentences[number]
        if each.message == sentences[question].message:
            continue
        if not left or each.speaker == sentences[question].speaker or each.is_question:
            return
        if _NO_ANSWER.match(each.text):
            continue
        yield number
        left = left - 1 if each.is_phatic else 0


def _written(sentences: Sequence[_Sentence]) -> list[str]:
    parts: list[str] = []
    speaker = None
    for each in sentences:
        text = _without_head(each.text)
        text = text if _FINISHED.search(text) else f"{text}."
        verb = "asks" if each.is_question else "says"
        parts.append(text if each.speaker == speaker else f"{each.speaker} {verb}: {text}")
        speaker = each.speaker
    return parts


def _without_head(text: str) -> str:
    head = _HEAD.match(text)
    return text[head.end()].upper() + text[head.end() + 1 :] if head else text


def fit_to_length(texts: Sequence[str], room: int) -> list[str]:
    """The texts, which together take no more than the room, with a blank between them.

    Those that are shorter than an even share leave the rest of theirs to the longer ones.
    """
    fitting = list(texts)
    room += 1  # the last needs no blank after it
    shortest_first = sorted(range(len(texts)), key=lambda each: len(texts[each]))
    for number, each in enumerate(shortest_first):
        share = room // (len(texts) - number)
        fitting[each] = shorten(texts[each], max(0, share - 1))
        room -= len(fitting[each]) + 1
    return fitting


def shorten(text: str, longest: int) -> str:
    """The text, cut where it is too long: between two words, or else two letters, and so marked."""
    if len(text) <= longest:
        return text
    end = longest - 1
    if end < 0:
        return ""
    places = range(end, max(0, end - _LONGEST_STEP), -1)
    between_words = (each for each in places if text[each].isspace())
    between_letters = (each for each in places if not _is_one(text[each - 1], text[each]))
    place = next(between_words, None) or next(between_letters, end)
    return f"{text[:place].rstrip()}…"


def _is_one(before: str, after: str) -> bool:
    """Whether two letters stand for one thing: a letter and its accent, digits of a number."""
    is_flag = "🇦" <= before <= "🇿" and "🇦" <= after <= "🇿"
    return (
        _WITHIN_NUMBER.fullmatch(before + after) is not None
        or unicodedata.category(after).startswith("M")
        or _ZERO_WIDTH_JOINER in {before, after}
        or after in _JOINING
        or is_flag
    )
