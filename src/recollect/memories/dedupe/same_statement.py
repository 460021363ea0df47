"""Decide whether a new statement says the same as an old one, so that it need not be saved.

Pure. The caller finds the candidates by similarity; the words decide here, because similar is not
the same.
"""

import re

from recollect.keywords.stop_words import STOP_WORDS
from recollect.keywords.tokenizer import CHUNK, language_of, normal_characters, plain_numbers
from recollect.memories.dedupe.canonical import PAUSES, canonical_words, kinds, orders, plural
from recollect.memories.dedupe.quantities import Tokens, with_dates
from recollect.memories.dedupe.word_lists import POSSESSIVES

# Pairs below this similarity are not compared. The documents define it as "nearly the same". The
# floor costs little: of 138 rewordings in `tests/memories`, 123 have the same words and 118 of
# these also reach it with the built-in embedder (`bench/duplicates.py`). So do 285 of 386
# corrections.
DUPLICATE_FLOOR = 0.9


def is_same_statement(old: str, new: str, similarity: float) -> bool:
    """Whether `new` adds and corrects nothing, given its similarity to `old` by the embedder.

    Similarity cannot tell a rewording from a correction: replacing "dark" by "light" is closer than
    many paraphrases. So both statements are reduced to a canonical sequence of words, in which only
    harmless variation is dropped or replaced. The sequences must be equal, including order. An
    unknown word therefore leads to a second row, never to a lost correction.
    """
    if similarity < DUPLICATE_FLOOR:
        return False
    if normalised(old) == normalised(new):
        return True
    if max(len(old), len(new)) > _MAX_STATEMENT:
        return False
    old_tokens, new_tokens = _tokens(old), _tokens(new)
    if {language_of(old), language_of(new)} != {"english"}:
        return _comparable_words(old_tokens) == _comparable_words(new_tokens)
    return _have_same_words(old_tokens, new_tokens)


def normalised(text: str) -> str:
    """Return the text without case, spacing, punctuation and compatibility forms."""
    words = " ".join(token.casefold() for token in _tokens(text) if token not in PAUSES)
    return words or text.strip()  # "..." is not "!"


# Characters. A longer text is a document: a reworded one shares no sequence of words, and comparing
# 50,000 characters would block every other request for a third of a second.
_MAX_STATEMENT = 2_000

# Signs that only structure a sentence. All others, from % to an emoji, count as words.
_PUNCTUATION = frozenset("!()[]{}\"'`.;-–—…•·|“”„‟«»‹›‚‛、。「」『』〈〉《》【】〜・")
_TOKEN = re.compile(rf"{CHUNK.pattern}|\S")
_SUPERSCRIPT = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u2079]")
_FIRST_UNSPACED = "\u0e01"


def _tokens(text: str) -> Tokens:
    """Return words, codes and meaningful signs in their case; unspaced scripts by character."""
    text = _SUPERSCRIPT.sub(r"^\g<0>", text)  # otherwise 5² would become 52
    text = plain_numbers(normal_characters(text))
    if text.isupper():
        text = text.lower()
    found: Tokens = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if len(token) == 1 and not token.isalnum():
            start, end = match.span()
            found.extend(_sign(token, text[start - 1 : start], text[end : end + 1]))
        elif token[0] >= _FIRST_UNSPACED:
            found.extend(token)
        elif token.isupper() and len(token) > 1:
            found.append(_acronym(token))
        else:
            found.append(token)
    return found


def _sign(sign: str, before: str, after: str) -> Tokens:
    """Return the sign as a token if it carries meaning, else nothing."""
    if sign in {"'", '"'} and before.isdigit():
        return [sign]  # feet and inches
    if sign == "'" and before == "s":
        return ["'s"]
    if sign in {".", "-", "!"} and after.isalnum() and not before.isalnum():
        return [sign]  # .5, -5, !ready
    if sign == "-" and before.isalnum():
        return [sign]  # blood group A-
    if sign == ":":
        return [sign] if after.isspace() else []
    if sign in {".", ";", "!"}:
        return [","] if after and not before.isdigit() else []
    if sign == "#" and after.isdigit():
        return []
    return [] if sign in _PUNCTUATION else [sign]


def _acronym(token: str) -> str:
    """Mark IT and US to tell them from "it" and "us"; other words mean the same in capitals."""
    return token + "." if token.casefold() in STOP_WORDS["english"] | {"us"} else token


def _comparable_words(tokens: Tokens) -> Tokens:
    return [
        token.casefold() for token in with_dates(tokens, has_half_days=False) if token not in PAUSES
    ]


def _have_same_words(old_tokens: Tokens, new_tokens: Tokens) -> bool:
    keep_owners = _names_owner(old_tokens) and _names_owner(new_tokens)
    one = canonical_words(old_tokens, keep_owners=keep_owners)
    other = canonical_words(new_tokens, keep_owners=keep_owners)
    known_kinds = kinds(old_tokens) | kinds(new_tokens)
    return any(_same_words(a, b, known_kinds) for a in orders(one) for b in orders(other))


def _names_owner(tokens: Tokens) -> bool:
    return not POSSESSIVES.isdisjoint(tokens)


def _same_words(old_tokens: Tokens, new_tokens: Tokens, known_kinds: frozenset[str]) -> bool:
    one = [token.casefold() for token in old_tokens if token not in PAUSES]
    other = [token.casefold() for token in new_tokens if token not in PAUSES]
    return len(one) == len(other) and all(
        a == b or (a in known_kinds and b == plural(a)) or (b in known_kinds and a == plural(b))
        for a, b in zip(one, other, strict=True)
    )
