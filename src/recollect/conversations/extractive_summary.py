"""Summarise a conversation without a model, by selecting its most informative sentences. Pure.

Sentences are quoted in order, each with its speaker, so that numbers, names, dates and attributions
stay correct. Only openings such as "well," are removed, and texts that are too long are shortened
visibly.
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

# The length of a summary grows slowly with the conversation, from two to six sentences.
_MIN_SENTENCES, _MAX_SENTENCES = 2, 6
_SENTENCES_PER_MESSAGE = 0.25

# Bonuses for a sentence: for each exact fact, and for opening the conversation.
_EXACT = 0.15
_OPENING = 0.6
# Longer sentences score higher up to this many words; very long ones score lower again.
_FULL_WORDS = 8
_MAX_WORDS = 60
# A shorter answer is meaningless without its question.
_FEW_WORDS = 6
# A sentence that shares this part of its words with one already selected adds nothing.
_REPEATED = 0.6

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKUP = re.compile(r"^\s{0,3}(?:#{1,6}|[-*+•])\s+|\*\*|__|`", re.MULTILINE)
_LIST_NUMBER = re.compile(r"^\s{0,3}(\d{1,2})[.)]\s+(?=(\w*+))", re.MULTILINE)
# The parts cannot overlap, so a text of nothing but brackets takes linear time.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\)")
_SPACES = re.compile(r"\s+")

# A possible end of a sentence: a mark followed by a space, which Chinese and Japanese marks omit.
_END = re.compile(
    r"(?<=[.!?…؟۔।։。！？])(?P<closing>[\"'”’)\]»」』）]*+)(?:\s+|(?<=[。！？])|$)|\n+"
)
_BEFORE_WORD = re.compile(r"[\s(\[\"'“‘„«]")
_NEXT_WORD = re.compile(r"[(\[\"'“‘„«¿¡]*+([^\W_]++)")
_MAX_ABBREVIATION = 12
_SHORT_WORD = 4
# A name follows these, even if it looks like a new sentence: "Dr. De Vries".
_TITLE = re.compile(
    r"mrs?|m[sx]|dra?|prof|rev|gen|capt|lt|sgt|gov|sen|st|hrn?|frl?|dipl|ing|mme|mlle|mgr|sra?|srta"
    r"|sigg?|sig\.ra|dott|dott\.ssa|avv|dhr|mevr|drs|проф|акад",
    re.IGNORECASE,
)
# Abbreviations in the languages we stem. Before a capital letter only these count; before a small
# letter or a digit, every short word does.
_ABBREVIATION = re.compile(
    r"approx|vs|etc|inc|ltd|corp|dept|jr|ave|blvd|jan|feb|apr|jun|jul|aug|sept?|o[ck]t|nov|de[cz]"
    r"|bzw|usw|ca|evtl|ggf|inkl|exkl|bspw|vgl|sog|insb|allg|max|min|zzgl|abzgl|geb|str|nr|tel|abt"
    r"|mio|mrd|tsd|std|env|tél|bd|av|avda|ej|pág|núm|uds?|dpto|ecc|pag|bijv|blz|enz|incl|osv|kl"
    r"|f\.eks|p\.ej|esim|mm|ym|jne|np|tzn|itd|itp|ul|např|tzv|atd|apod|pl|stb|kb|vb|örn|bkz"
    r"|г|ул|стр|др|тыс|млн|млрд|руб"
    # "U.S.", "p.m.", "z.B."; also "1." or "24.12.", with which dates begin in many languages.
    r"|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|(?:\d{1,2}\.)?\d{1,2}",
    re.IGNORECASE,
)
# This much of a text is enough to detect its language by its function words.
_LANGUAGE_CHARACTERS = 4_000
# Look back at most this far for a better place to cut.
_MAX_CUT_STEP = 40
_WITHIN_NUMBER = re.compile(r"\d[\d.,]|[.,]\d")
_ZERO_WIDTH_JOINER = "\u200d"
# Thai and Lao "am" and the five skin tones modify the character before them.
_JOINING = "\u0e33\u0eb3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_WORD = re.compile(r"[^\W_]+(?:['’.,:/-][^\W_]+)*")
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_NAME = re.compile(r"(?<=[^\W_][\s,;:(])[A-Z][^\W\d_]+")
_REPLY = re.compile(r"\W*(?:yes|yeah|yep|no|nope|nah|sure|of course)\b", re.IGNORECASE)
_FINISHED = re.compile(r"[.!?…؟۔।։。！？:;][\"'”’)\]»」』）]*$")
_QUESTION = re.compile(r"[?？؟][\"'”’)\]»」』）]*$")
# Phrases without content.
_PHATIC = re.compile(
    # Atomic groups, with the longer alternative first. Otherwise "goodbye" could also match as
    # "good" and "bye", and the time would double with each such word.
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
# Phrases that are no answer: greetings, with a name, and phrases to gain time.
_NO_ANSWER = re.compile(
    r"\W*+(?:(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|nice to (?:see|meet) you"
    r"|how are you)\b\W*+)++(?:(?:mrs?|ms|miss|dr|prof|professor)\b\W*+)?"
    r"(?:(?-i:[A-Z])\w*+\W*+){0,2}"
    r"|(?:(?:well|oh|okay|ok)\b\W*+)*+(?:let me (?:see|think|check)|let'?s see"
    r"|(?:just )?(?:a|one) (?:moment|minute|second))\b\W*+(?:(?:please|sir|madam|ma'am)\b\W*+)*+"
    r")$",
    re.IGNORECASE,
)
# Openings that a sentence does not need.
_FILLER_OPENING = re.compile(
    r"(?:(?:well|oh|ah|aha|h++m++|u++[hm]++|wow|gee|hey|you know|you see|ach|tja|naja|äh++m?"
    r"|eh bien|bah|euh|bueno|pues|ay|ну|ой)\s?(?:,|…|\.\.\.)\s)++(?=\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """One message: its speaker and text."""

    speaker: str
    text: str


def summary_of(lines: Sequence[SpokenLine], max_length: int | None = None) -> str:
    """Return a few sentences that summarise the conversation, or "" if it has none."""
    sentences = _sentences(lines)
    if not sentences:
        return ""
    wanted = _sentence_count(len({each.message for each in sentences}))
    selected = _with_context(_best(sentences, wanted), sentences)
    quoted = _quote([sentences[number] for number in sorted(selected)])
    return " ".join(quoted if max_length is None else fit_to_length(quoted, max_length))


def main_sentences(text: str, max_sentences: int) -> list[str]:
    """Return the most informative sentences of one text, in order, without questions."""
    sentences = [each for each in _sentences([SpokenLine("", text)]) if not each.is_question]
    return (
        [sentences[number].text for number in sorted(_best(sentences, max_sentences))]
        if sentences
        else []
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
    """Return the sentences of a message, without its markup and code."""
    unmarked = _without_list_numbers(_MARKUP.sub("", _CODE.sub(" ", text)))
    plain = _LINK.sub(r"\1", unmarked).strip()
    writing = _Writing(_language(plain), is_small=plain[:1].islower())
    found: list[str] = []
    begin = 0
    for end in _END.finditer(plain):
        if "\n" not in end.group() and _continues(plain, begin, end, writing):
            continue
        found.append(plain[begin : end.end()])
        begin = end.end()
    found.append(plain[begin:])
    return [clean for piece in found if (clean := _SPACES.sub(" ", piece).strip())]


@dataclass(frozen=True, slots=True)
class _Writing:
    """The style of a text: its language, and whether its sentences begin with small letters."""

    language: str
    is_small: bool


def _without_list_numbers(text: str) -> str:
    """Remove the numbers of a list, which count from one. "15. August" is a date and stays."""
    found = list(_LIST_NUMBER.finditer(text))
    numbers = [int(each[1]) for each in found]
    is_counting = all(after in {before + 1, 1} for before, after in pairwise([0, *numbers]))
    # Lines that all have the same word after the number are dates, not a list.
    is_list = is_counting and len({each[2] for each in found}) > 1
    return _LIST_NUMBER.sub("", text) if is_list else text


def _language(text: str) -> str:
    votes = Counter[str]()
    for word in _WORD.findall(text[:_LANGUAGE_CHARACTERS]):
        votes.update(LANGUAGES_BY_WORD.get(word.lower(), ()))
    return max(STOP_WORDS, key=lambda language: votes[language])


def _continues(text: str, begin: int, end: re.Match[str], writing: _Writing) -> bool:
    """Whether a sentence continues after a mark: after "Dr.", "U.S." or, in German, "am 1.".

    In doubt it continues: two joined sentences keep their meaning, half a sentence does not.
    """
    following = _NEXT_WORD.match(text, end.end())
    if following is None:
        return False
    word = following[1]
    is_small = word[0].islower()
    if end["closing"]:
        return is_small
    # Only the last word is examined, so a text of nothing but initials takes linear time.
    tail = text[max(begin, end.start() - _MAX_ABBREVIATION) : end.start()]
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
        # It may also end a sentence. The next one then often begins with a function word, which
        # dates and names do not.
        is_alone = begin + len(last) == end.start()  # "1. The plan", "B. The other plan"
        is_function_word = writing.language in LANGUAGES_BY_WORD.get(word.lower(), ())
        is_next_initial = text.startswith(".", following.end())
        return is_alone or is_small or is_next_initial or not is_function_word
    is_short = len(before) <= _SHORT_WORD and before.isalnum()
    return is_short and (word[0].isdigit() or (is_small and not writing.is_small))


def _sentence_count(messages: int) -> int:
    return min(max(_MIN_SENTENCES, math.ceil(messages * _SENTENCES_PER_MESSAGE)), _MAX_SENTENCES)


def _best(sentences: Sequence[_Sentence], wanted: int) -> list[int]:
    """Select the sentences with the most frequent words, each adding something new."""
    frequency = Counter(stem for each in sentences for stem in each.stems)
    first = next((each.message for each in sentences if not each.is_phatic), None)
    scores = [_score(each, frequency, first) for each in sentences]
    selected: list[int] = []
    for number in sorted(range(len(sentences)), key=lambda each: (-scores[each], each)):
        if len(selected) >= wanted or scores[number] <= 0:
            break
        if not any(_repeats(sentences[number], sentences[other]) for other in selected):
            selected.append(number)
    return selected or [max(range(len(sentences)), key=lambda each: (sentences[each].words, -each))]


def _score(sentence: _Sentence, frequency: Counter[str], first: int | None) -> float:
    if sentence.is_phatic or not sentence.stems:
        return 0.0
    # Words that occur often in the conversation are its subject.
    weight = sum(math.log1p(frequency[stem]) for stem in sentence.stems) / len(sentence.stems)
    fullness = min(sentence.words, _FULL_WORDS) / _FULL_WORDS
    if sentence.words > _MAX_WORDS:
        fullness *= _MAX_WORDS / sentence.words
    bonus = _EXACT * min(sentence.exact, 3) + _OPENING * (sentence.message == first)
    return weight * fullness * (1 + bonus)


def _repeats(sentence: _Sentence, other: _Sentence) -> bool:
    shared = len(sentence.stems & other.stems)
    return shared >= _REPEATED * min(len(sentence.stems), len(other.stems))


def _with_context(selected: Sequence[int], sentences: Sequence[_Sentence]) -> set[int]:
    """Add the question to a short answer, and the answer to a question."""
    whole = set(selected)
    for number in selected:
        sentence = sentences[number]
        if sentence.is_question:
            whole.update(_answer(number, sentences))
        elif number and (sentence.words < _FEW_WORDS or _REPLY.match(sentence.text)):
            before = sentences[number - 1]
            if before.is_question and before.speaker != sentence.speaker:
                whole.add(number - 1)
    return whole


def _answer(question: int, sentences: Sequence[_Sentence]) -> Iterator[int]:
    """Yield the other side's answer: one sentence, or a short one such as "No." and the next."""
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


def _quote(sentences: Sequence[_Sentence]) -> list[str]:
    parts: list[str] = []
    speaker = None
    for each in sentences:
        text = _without_filler(each.text)
        text = text if _FINISHED.search(text) else f"{text}."
        verb = "asks" if each.is_question else "says"
        parts.append(text if each.speaker == speaker else f"{each.speaker} {verb}: {text}")
        speaker = each.speaker
    return parts


def _without_filler(text: str) -> str:
    opening = _FILLER_OPENING.match(text)
    return text[opening.end()].upper() + text[opening.end() + 1 :] if opening else text


def fit_to_length(texts: Sequence[str], room: int) -> list[str]:
    """Shorten the texts so that together, separated by blanks, they fit into `room` characters.

    Texts shorter than an equal share leave the rest of it to the longer ones.
    """
    fitting = list(texts)
    room += 1  # the last text needs no separator
    shortest_first = sorted(range(len(texts)), key=lambda each: len(texts[each]))
    for number, each in enumerate(shortest_first):
        share = room // (len(texts) - number)
        fitting[each] = shorten(texts[each], max(0, share - 1))
        room -= len(fitting[each]) + 1
    return fitting


def shorten(text: str, max_length: int) -> str:
    """Shorten a text to the given length, preferably between two words, and end it with "…"."""
    if len(text) <= max_length:
        return text
    end = max_length - 1
    if end < 0:
        return ""
    cuts = range(end, max(0, end - _MAX_CUT_STEP), -1)
    between_words = (each for each in cuts if text[each].isspace())
    between_letters = (each for each in cuts if not _belong_together(text[each - 1], text[each]))
    cut = next(between_words, None) or next(between_letters, end)
    return f"{text[:cut].rstrip()}…"


def _belong_together(before: str, after: str) -> bool:
    """Whether two characters belong together: a letter and its accent, or digits of a number."""
    is_flag = "🇦" <= before <= "🇿" and "🇦" <= after <= "🇿"
    return (
        _WITHIN_NUMBER.fullmatch(before + after) is not None
        or unicodedata.category(after).startswith("M")
        or _ZERO_WIDTH_JOINER in {before, after}
        or after in _JOINING
        or is_flag
    )
