"""Whether a new statement says the same as an old one, so that saving it may be skipped.

Pure. Finding the candidates is the caller's; similar is not same, so the words decide here.
"""

import re

from recollect.engine.english import PAUSES, canonical, kinds, orders, plural
from recollect.engine.harmless import POSSESSIVES
from recollect.engine.quantities import Tokens, with_dates
from recollect.engine.stopwords import STOP_WORDS
from recollect.engine.words import CHUNK, language_of, normal_characters, plain_numbers

# Below this likeness no pair is looked at. It is where the documents put "nearly the same", and it
# costs little: of 138 rewordings in tests/engine, 123 agree in their words and 118 also reach it
# with the built-in embedder (`bench/duplicates.py`), as do 285 of 386 corrections.
TWIN_FLOOR = 0.9


def is_twin(old: str, new: str, likeness: float) -> bool:
    """Whether `new` adds and corrects nothing, given how alike the embedder finds the two.

    A likeness cannot tell a rewording from a correction: "light" for "dark" is nearer than many a
    paraphrase. So both statements are brought to a canonical sequence of words, where only what is
    known to be harmless was dropped or replaced, and the sequences must agree, order included. A
    word nobody thought of therefore makes a second row, never a lost correction.
    """
    if likeness < TWIN_FLOOR:
        return False
    if normalised(old) == normalised(new):
        return True
    if max(len(old), len(new)) > _LONGEST_STATEMENT:
        return False
    mine, theirs = _tokens(old), _tokens(new)
    if {language_of(old), language_of(new)} != {"english"}:
        return _spelt_alike(mine) == _spelt_alike(theirs)
    return _agree(mine, theirs)


def normalised(text: str) -> str:
    """The text without case, spacing, punctuation and compatibility forms, for exact comparison."""
    words = " ".join(token.casefold() for token in _tokens(text) if token not in PAUSES)
    return words or text.strip()  # "..." is not "!"


# Characters. What is longer is a document: rewording one leaves no word as it was, and looking
# closely at 50,000 would hold up every other request for a third of a second.
_LONGEST_STATEMENT = 2_000

# Signs that only pace a sentence. All others, from % to an emoji, are words like any other.
_PUNCTUATION = frozenset("!()[]{}\"'`.;-–—…•·|“”„‟«»‹›‚‛、。「」『』〈〉《》【】〜・")
_TOKEN = re.compile(rf"{CHUNK.pattern}|\S")
_SUPERSCRIPT = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u2079]")
_FIRST_UNSPACED = "\u0e01"


def _tokens(text: str) -> Tokens:
    """Words, codes and telling signs in their own case; each character of an unspaced script."""
    text = _SUPERSCRIPT.sub(r"^\g<0>", text)  # or else 5² would become 52
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
    """The sign as a token where it means something."""
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
    """IT and US, told apart from "it" and "us"; any other word is the same in capitals."""
    return token + "." if token.casefold() in STOP_WORDS["english"] | {"us"} else token


def _spelt_alike(tokens: Tokens) -> Tokens:
    return [
        token.casefold() for token in with_dates(tokens, has_half_days=False) if token not in PAUSES
    ]


def _agree(mine: Tokens, theirs: Tokens) -> bool:
    owners_count = _names_owner(mine) and _names_owner(theirs)
    one = canonical(mine, owners_count=owners_count)
    other = canonical(theirs, owners_count=owners_count)
    known_kinds = kinds(mine) | kinds(theirs)
    return any(_same_words(a, b, known_kinds) for a in orders(one) for b in orders(other))


def _names_owner(tokens: Tokens) -> bool:
    return not POSSESSIVES.isdisjoint(tokens)


def _same_words(mine: Tokens, theirs: Tokens, known_kinds: frozenset[str]) -> bool:
    one = [token.casefold() for token in mine if token not in PAUSES]
    other = [token.casefold() for token in theirs if token not in PAUSES]
    return len(one) == len(other) and all(
        a == b or (a in known_kinds and b == plural(a)) or (b in known_kinds and a == plural(b))
        for a, b in zip(one, other, strict=True)
    )
