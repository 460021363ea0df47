"""Does a new statement say the same as an old one, so that saving it again may be skipped?

Pure. Finding the candidates is the caller's; similar is not same, so the words decide here.
"""

import re

from recollect.engine.english import canonical, orders, singular, speaks_of_kinds
from recollect.engine.quantities import Tokens, with_dates
from recollect.engine.stopwords import STOP_WORDS
from recollect.engine.words import CHUNK, language_of, normal_characters, plain_numbers

# Below this likeness no pair is looked at. 0.9 is where the documents put "nearly the same".
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
    mine, theirs = _tokens(old), _tokens(new)
    if {language_of(old), language_of(new)} != {"english"}:
        return _spelt_alike(mine) == _spelt_alike(theirs)
    return _agree(mine, theirs)


def normalised(text: str) -> str:
    """The text without case, spacing, punctuation and compatibility forms, for exact comparison."""
    return " ".join(token.casefold() for token in _tokens(text) if token not in _PAUSES)


# Signs that only pace a sentence. All others, from % to an emoji, are words like any other.
_PUNCTUATION = frozenset("!()[]{}\"'`.;-–—…•·|“”„‟«»‹›‚‛、。「」『』〈〉《》【】〜・")
_PAUSES = frozenset({",", ":"})
_TOKEN = re.compile(rf"{CHUNK.pattern}|\S")
_SUPERSCRIPT = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u2079]")
_FIRST_UNSPACED = "\u0e01"


def _tokens(text: str) -> Tokens:
    """Words, codes and telling signs in their own case; each character of an unspaced script."""
    text = _SUPERSCRIPT.sub(r"^\g<0>", text)  # or else 5² would become 52
    text = plain_numbers(normal_characters(text))
    is_shouting = text.isupper()
    found: Tokens = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if len(token) == 1 and not token.isalnum():
            found.extend(
                _sign(token, text[match.start() - 1 : match.start()], text[match.end() :][:1])
            )
        elif token[0] >= _FIRST_UNSPACED:
            found.extend(token)
        elif token.isupper() and len(token) > 1 and not is_shouting:
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
    if sign in {".", "-"} and after.isalnum() and not before.strip():
        return [sign]  # .5, -5, .env
    if sign == ":":
        return [sign] if after.isspace() else []
    if sign == "#" and after.isdigit():
        return []
    return [] if sign in _PUNCTUATION else [sign]


def _acronym(token: str) -> str:
    """IT and US, told apart from "it" and "us"; any other word is the same in capitals."""
    return token + "." if token.casefold() in STOP_WORDS["english"] | {"us"} else token


def _spelt_alike(tokens: Tokens) -> Tokens:
    return [token.casefold() for token in with_dates(tokens) if token not in _PAUSES]


def _agree(mine: Tokens, theirs: Tokens) -> bool:
    one, other = canonical(mine), canonical(theirs)
    are_kinds = speaks_of_kinds(mine, one) and speaks_of_kinds(theirs, other)
    return any(
        a == b or (are_kinds and [*map(singular, a)] == [*map(singular, b)])
        for a in orders(one)
        for b in orders(other)
    )
