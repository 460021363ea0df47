"""Split text into search terms, for indexing a memory and for querying the index.

Pure. Scoring is in `bm25`, the statistics are in the database.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from string import ascii_lowercase
from typing import Any

import Stemmer

from recollect.keywords.bm25 import Word
from recollect.keywords.stop_words import LANGUAGES_BY_WORD, LETTERS, STOP_WORDS

# Characters. A term is a key of the postings index. Longer ones are cut and get a hash, which keeps
# them distinct.
MAX_TERM_LENGTH = 100

# How many terms a query is scored by, over all its words. The cost of a search grows with them, and
# 10,000 Chinese characters would have thousands. Questions have fewer: the longest of the public
# data sets has 318, an English message of 4,000 characters usually 270 to 450. Of a longer text,
# half of the terms come from its beginning and half from its end: people who paste a text ask about
# it before or after it. The rarest terms are no alternative: which ones they are is unknown before
# they are read, and terms that no memory has would come first.
MAX_TERMS = 512


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms to score by, and the quoted phrases that the text must contain."""

    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    # The same terms grouped by word: a text that has any form of a word has the word.
    words: tuple[Word, ...] = ()


def terms(text: str) -> Counter[str]:
    """Return every term by which the text is found, with its frequency.

    A word is indexed under its folded surface form and, if different, also under its stem. Queries
    do the same. So an exact word always matches, even when a short query's language is detected
    differently from the document's, and inflected forms match through the stem. (LoCoMo, recall@10
    of BM25 alone: .627 with both forms, .623 with stems only.)
    """
    chunks = _chunks(text)
    language = _language(chunks)
    # A single Chinese or Korean character is often a word: it is indexed, but not queried.
    return Counter(chain.from_iterable(_index_terms(chunk, language) for chunk in chunks))


def query_terms(text: str, time_words: Collection[str] = ()) -> QueryTerms:
    """Return the distinct terms of a query, without function words unless it has nothing else.

    For a very long text, only the terms of its first and last words. `time_words` are lower-case
    words that say when and not what.
    """
    chunks = _chunks(text)
    language = _language(chunks)
    # LoCoMo, recall@10 of BM25 alone: .63 without the query's function words, .56 with them.
    stop_words = STOP_WORDS[language]
    meaningful = [
        chunk for chunk in chunks if _POSSESSIVE.sub("", chunk.casefold()) not in stop_words
    ]
    words = _first_and_last(
        [
            word._replace(is_time_word=chunk.lower() in time_words)
            for chunk in meaningful or chunks
            for word in _query_words(chunk, language)
        ]
    )
    found = dict.fromkeys(chain.from_iterable(word.terms for word in words))
    return QueryTerms(tuple(found), phrases(text), tuple(words))


def spelling_variants(word: Word) -> tuple[str, ...]:
    """Return the words that a typing error may have turned into this one.

    One letter added, missing, replaced, or two letters swapped. In short words only swapped letters
    count: "horse" is not a typing error for "house". Codes, and very short or long words, have no
    variants.
    """
    typed = word.forms[0]
    if word.parts or not typed.isalpha() or not _MIN_SWAPPED <= len(typed) <= _MAX_MISSPELT:
        return ()
    halves = [(typed[:at], typed[at:]) for at in range(len(typed) + 1)]
    variants = [left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1]
    if len(typed) >= _MIN_MISSPELT:
        letters = _CYRILLIC if _language_of_script(typed) == "russian" else ascii_lowercase
        variants += [left + right[1:] for left, right in halves if right]
        variants += [left + each + right[1:] for left, right in halves if right for each in letters]
        variants += [left + each + right for left, right in halves for each in letters]
        variants += [typed.replace(*pair) for pair in (("ae", "a"), ("oe", "o"), ("ue", "u"))]
    return tuple(each for each in dict.fromkeys(variants) if each not in word.forms)


def phrases(text: str) -> tuple[str, ...]:
    """Return quoted phrases of two or more words, literally, with white space collapsed."""
    quoted = (" ".join(match[match.lastindex or 0].split()) for match in _QUOTED.finditer(text))
    return tuple(dict.fromkeys(phrase for phrase in quoted if _is_phrase(phrase)))


def fold(word: str) -> str:
    """Return the word without case, accents and vowel points: `Zürich` and `ZURICH` are equal."""
    word = word.casefold()
    if word.isascii():
        return word
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", word)).translate(_LETTERS_WITHOUT_MARKS)
    bare = unicodedata.normalize("NFKC", bare)
    return "".join(str(unicodedata.decimal(char, char)) for char in bare)


def normal_characters(text: str) -> str:
    """Normalise compatibility forms and typographic apostrophes, remove invisible characters."""
    if text.isascii():
        return text
    text = _FRACTION.sub(r" \g<0>", text)  # otherwise 1½ would become 11/2
    return unicodedata.normalize("NFKC", text).translate(_PLAIN_CHARACTERS)


def language_of(text: str) -> str:
    """Return the language with the most function words in the text; English if there are none."""
    return _language(_chunks(text))


def plain_numbers(text: str) -> str:
    """Write `1,000` as `1000`, and `10,5` as `10.5`."""
    if "," not in text and "'" not in text:
        return text
    return _DECIMAL_COMMA.sub(r"\1.\2", _THOUSANDS.sub(_without_separators, text))


# Scripts written without spaces between words, and Korean, whose particles are attached to words:
# Thai, Lao, Tibetan, Myanmar, Hangul, Khmer, kana and bopomofo, Han with its extensions.
_UNSPACED = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0f40-\u0fbc\u1000-\u104f\u1100-\u11ff\u1780-\u17d3"
    r"\u3005-\u3007\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that are part of a word although `\w` does not match them: vowel signs of the Indic scripts,
# points of Hebrew and Arabic, accents without a composed form.
_WORD_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    r"\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a"
    r"\u07a6-\u07b0\u0900-\u0963\u0971-\u0df3\u135d-\u135f\u1712-\u1714\u180b-\u180d\u1a17-\u1a1b"
    r"\u1b00-\u1b44\u1b80-\u1bad\u1dc0-\u1dff\u20d0-\u20f0\ua8e0-\ua8f1\ufe20-\ufe2f"
)
_JOINERS = r"[-._/:@+&=?%~\\#']"
# A word, a code with its inner signs, or a run of unspaced script.
_ASCII_CHUNK = re.compile(rf"\w++(?:{_JOINERS}{{1,3}}\w++)*+(?:\+\+|#)?", re.ASCII)
_WORD = rf"(?:[^\W{_UNSPACED}]++|[{_WORD_MARKS}]++)++"
CHUNK = re.compile(rf"[{_UNSPACED}]++|{_WORD}(?:{_JOINERS}{{1,3}}{_WORD})*+(?:\+\+|#)?")
_UNSPACED_CHUNK = re.compile(rf"[{_UNSPACED}]")
_IDEOGRAM = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)

_MARKS = re.compile(
    r"[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    r"\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"
)
# Letters that Unicode does not decompose, but that people type without their stroke.
_LETTERS_WITHOUT_MARKS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "\u0131": "i",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ħ": "h",
    }
)
_PLAIN_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u201b", "'"),
        **dict.fromkeys("\u2010\u2011\u2013\u2212", "-"),
        **dict.fromkeys("\u00ad\u200c\u200d\u2060\ufeff", None),  # invisible inside a word
    }
)

_FRACTION = re.compile(r"[\u00bc-\u00be\u2150-\u215e]")

_QUOTED = re.compile(
    r'(?<!\w)"(?=\S)([^"]+)"'  # not the inch sign of 5" by 7"
    r"|\u201c([^\u201c\u201d\u201e]+)\u201d"
    r"|\u201e([^\u201c\u201d\u201e]+)[\u201c\u201d]"
    r"|\u00ab([^\u00ab\u00bb]+)\u00bb"
    r"|\u00bb([^\u00ab\u00bb]+)\u00ab"
    r"|\u300c([^\u300c\u300d]+)\u300d"
    r"|\u300e([^\u300e\u300f]+)\u300f"
)

_SEPARATORS = re.compile(rf"(?:{_JOINERS}|_)+")
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:[,']\d{3})++(?![\d,])")
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d+),(\d{1,2})(?![\d,])")
_DOTTED_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
# 8th is also indexed as 8, and v2.3.1 as 2.3.1.
_NUMBERED = re.compile(r"(\d+)(?:st|nd|rd|th)|v(\d+(?:\.\d+)*)", re.IGNORECASE)
_ALPHABETIC = re.compile(rf"(?:[^\W\d_]++|[{_WORD_MARKS}]++)++")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_RUNS = re.compile(rf"{_ALPHABETIC.pattern}|\d+")
_POSSESSIVE = re.compile(r"'s$", re.IGNORECASE)

# Word lengths for which spelling variants are generated; below the first, only swapped letters.
_MIN_MISSPELT, _MIN_SWAPPED, _MAX_MISSPELT = 6, 4, 20
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
_DETECTION_CHUNKS = 400  # enough function words to detect a language; keeps long texts cheap
_CACHEABLE_CHUNK = 40  # characters; caching longer chunks could keep whole documents in memory


def _chunks(text: str) -> list[str]:
    """Return words, codes and runs of unspaced script, in order and with their case."""
    if text.isascii():
        return _ASCII_CHUNK.findall(plain_numbers(text))
    return CHUNK.findall(plain_numbers(normal_characters(text)))


def _without_separators(match: re.Match[str]) -> str:
    return match[0].replace(",", "").replace("'", "")


def _language(chunks: list[str]) -> str:
    """Return the language of the Latin words, by function words and typical letters; or English."""
    votes = Counter[str]()
    for chunk in chunks[:_DETECTION_CHUNKS]:
        word = chunk.casefold()
        votes.update(LANGUAGES_BY_WORD.get(word, ()))
        if not word.isascii():
            for letter in LETTERS.keys() & set(word):
                votes.update(LETTERS[letter])
    # A tie goes to the first language of STOP_WORDS, English.
    return max(STOP_WORDS, key=lambda language: votes[language])


def _index_terms(chunk: str, language: str) -> Iterable[str]:
    if _is_unspaced(chunk):
        return (*_bigrams(chunk), *(_IDEOGRAM.findall(chunk) if len(chunk) > 1 else ()))
    return _word(chunk, language).terms


def _query_words(chunk: str, language: str) -> list[Word]:
    if _is_unspaced(chunk):
        return [Word((bigram,)) for bigram in _bigrams(chunk)]
    word = _word(chunk, language)
    return [word] if word.forms else []


def _first_and_last(words: Sequence[Word]) -> list[Word]:
    """Return each word once, in order; if they have too many terms, the first and last words."""
    distinct = list(dict.fromkeys(words))
    if sum(len(word.terms) for word in distinct) <= MAX_TERMS:
        return distinct
    half = MAX_TERMS // 2
    # A single word may have a thousand parts.
    words = [word._replace(parts=word.parts[: half - len(word.forms)]) for word in words]
    first = list(_take_terms(dict.fromkeys(words), half))
    last = list(_take_terms(dict.fromkeys(reversed(words)), half))
    return list(dict.fromkeys((*first, *reversed(last))))


def _take_terms(words: Iterable[Word], max_terms: int) -> Iterator[Word]:
    """Yield words from the beginning that together have at most `max_terms` terms."""
    for word in words:
        max_terms -= len(word.terms)
        if max_terms < 0:
            return
        yield word


def _is_unspaced(chunk: str) -> bool:
    return not chunk.isascii() and _UNSPACED_CHUNK.match(chunk) is not None


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _word(chunk: str, language: str) -> Word:
    if len(chunk) <= _CACHEABLE_CHUNK:
        return _short_word(chunk, language)
    return _parse_word(chunk, language)


@lru_cache(maxsize=1 << 15)
def _short_word(chunk: str, language: str) -> Word:
    return _parse_word(chunk, language)


def _parse_word(chunk: str, language: str) -> Word:
    """Return the forms and parts of a word or code, each with its stem, without repetition."""
    chunk = _POSSESSIVE.sub("", chunk)
    if _is_alphabetic(chunk) and not _CAMEL_CASE.search(chunk):
        return Word(tuple(form for form in _stemmed(chunk, language) if form))
    parts = [part for part in _SEPARATORS.split(chunk) if part]
    # A hyphen or an apostrophe is optional ("e-mail", "dont"); the separators of a code are not.
    is_compound = all(map(_is_alphabetic, parts)) and not re.search(r"[^\w'-]|_", chunk)
    whole = _stemmed("".join(parts) if is_compound else chunk, language)
    if _DOTTED_THOUSANDS.fullmatch(chunk):
        whole.append(chunk.replace(".", ""))
    if number := _NUMBERED.fullmatch(chunk):
        whole.append(number[1] or number[2])
    found: list[str] = []
    for part in parts:
        # A single letter left by an elision ("l'eau", "don't") is not a word; a version digit is.
        if len(part) > 1 or not is_compound:
            found.extend(_stemmed(part, language))
        runs = [run for piece in _CAMEL_CASE.split(part) for run in _RUNS.findall(piece)]
        for run in runs if len(runs) > 1 else ():
            if len(run) > 1:
                found.extend(_stemmed(run, language))
    forms = tuple(form for form in dict.fromkeys(whole) if form)
    return Word(forms, tuple(part for part in dict.fromkeys(found) if part and part not in forms))


def _stemmed(word: str, language: str) -> list[str]:
    """Return the folded word and, if different, its folded stem."""
    surface = fold(word)
    if not _is_alphabetic(surface) or len(surface) > MAX_TERM_LENGTH:
        return [_shorten(surface)]
    # The stemmer gets the accents, because its rules use them.
    stem = fold(_stem(word.casefold(), _language_of_script(word) or language))
    return [surface] if stem in {surface, ""} else [surface, stem]


def _is_alphabetic(word: str) -> bool:
    return word.isalpha() or _ALPHABETIC.fullmatch(word) is not None


def _shorten(term: str) -> str:
    if len(term) <= MAX_TERM_LENGTH:
        return term
    digest = blake2b(term.encode(errors="replace"), digest_size=8).hexdigest()
    return f"{term[: MAX_TERM_LENGTH - len(digest) - 1]}~{digest}"


def _language_of_script(word: str) -> str | None:
    if word.isascii():
        return None
    first = ord(word[0])
    return next((name for low, high, name in _SCRIPTS if low <= first <= high), None)


# Scripts that determine the stemmer by themselves, so that a mixed text needs no detection.
_SCRIPTS = (
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x052F, "russian"),
    (0x0530, 0x058F, "armenian"),
    (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
    (0x0B80, 0x0BFF, "tamil"),
    (0x1F00, 0x1FFF, "greek"),
)


def _stem(word: str, language: str) -> str:
    return str(_stemmer(language).stemWord(word))


@lru_cache
def _stemmer(language: str) -> Any:  # PyStemmer ships no types
    return Stemmer.Stemmer(language, maxCacheSize=0)  # pyright: ignore[reportUnknownVariableType]


def _is_phrase(quoted: str) -> bool:
    chunks = _chunks(quoted)
    return len(chunks) > 1 or any(_is_unspaced(chunk) and len(chunk) > 1 for chunk in chunks)
