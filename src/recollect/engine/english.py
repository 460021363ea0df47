"""An English statement as a canonical sequence of words: harmless variation gone, the rest kept.

A verb keeps its form as a tag: `like|s` for likes, `like|past`, `like|ing`. Which two sequences
count as the same statement is for `twins` to say.
"""

from collections.abc import Iterator
from itertools import pairwise

from recollect.engine import harmless
from recollect.engine.quantities import (
    WEEKDAYS,
    Tokens,
    is_date,
    is_number,
    is_unit,
    with_dates,
    with_numbers,
    with_units,
)


def canonical(tokens: Tokens) -> Tokens:
    """The canonical sequence of a statement, from its tokens in their own case."""
    tokens = with_dates(with_numbers(_taken_apart(_without_lead_in(tokens))))
    tokens = with_units([token.casefold() for token in tokens])
    tokens = _with_tagged_verbs(_without_articles(tokens))
    tokens = _with_negations(_with_phrases(tokens))
    tokens = _with_synonyms(_without_light_words(tokens))
    return _with_adverb_first(_with_pairs_sorted(_with_owners_first(tokens)))


def orders(tokens: Tokens) -> Iterator[Tokens]:
    """The sequence itself and the others that say the same: fronted, active, turned around."""
    yield tokens
    if len(tokens) > _LONGEST_REORDERED:
        return
    for at in range(1, len(tokens)):
        if tokens[0] in harmless.PREPOSITIONS or _is_time(tokens[0]):
            yield tokens[at:] + tokens[:at]
    yield from _active(tokens)
    if [_base(token) for token in tokens].count("be") == 1:
        at = next(at for at, token in enumerate(tokens) if _base(token) == "be")
        yield [*tokens[at + 1 :], tokens[at], *tokens[:at]]


def speaks_of_kinds(tokens: Tokens, canonical_tokens: Tokens) -> bool:
    """Whether it is a statement of taste that points at nothing in particular and counts nothing."""
    words = [token.casefold() for token in tokens]
    if words[:2] == ["the", "user"]:
        words = words[1:]
    return (
        not harmless.TASTES.isdisjoint(map(_base, canonical_tokens))
        and harmless.POINTERS.isdisjoint(words)
        and not any(map(is_number, canonical_tokens))
    )


def singular(token: str) -> str:
    """A common noun without its plural ending, as far as the ending shows."""
    word = token.removesuffix("|s")
    if word != token or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    for ending, instead in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if word.endswith(ending):
            word = word.removesuffix(ending) + instead
            return token if word in harmless.PERSONS or word in WEEKDAYS else word
    return word


_LONGEST_REORDERED = 60  # tokens; a longer text is no single statement


def _base(token: str) -> str:
    return token.partition("|")[0]


def _tag(token: str) -> str:
    return "".join(token.partition("|")[1:])


def _is_time(token: str) -> bool:
    return token == "every" or is_date(token)


def _without_lead_in(tokens: Tokens) -> Tokens:
    words = tuple(token.casefold() for token in tokens[:4])
    for lead_in in harmless.LEAD_INS:
        if words[: len(lead_in)] == lead_in and len(tokens) > len(lead_in):
            rest = tokens[len(lead_in) :]
            return rest[1:] if rest[0] == "," else rest
    return tokens


def _taken_apart(tokens: Tokens) -> Tokens:
    return [part for token in tokens for part in _parts(token)]


def _parts(token: str) -> tuple[str, ...]:
    """Contractions, hyphenated words and glued units in their parts."""
    word = token.casefold()
    if word in harmless.CONTRACTIONS:
        return harmless.CONTRACTIONS[word]
    if word.endswith("'s") and len(word) > 2:
        return (token[:-2], "is" if word[:-2] in harmless.IS_BEFORE_S else "'s")
    for ending, meaning in harmless.CONTRACTED_ENDINGS.items():
        if word.endswith(ending):
            return (token.removesuffix(token[-len(ending) :]), meaning)
    if "-" in word:
        return _hyphenated(token)
    number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    if is_number(number) and is_unit(word.removeprefix(number)):
        return (number, word.removeprefix(number))
    return (token,)


def _hyphenated(token: str) -> tuple[str, ...]:
    """`dark-mode` and `3-year-old` in their words; `e-mail`, `F-16` and `555-0123` whole."""
    first, *rest = token.split("-")
    is_splittable = all(part.isalpha() for part in rest) and (
        first.isdecimal() or (first.isalpha() and len(first) > 2)
    )
    return (first, *rest) if is_splittable else (token,)


def _without_articles(tokens: Tokens) -> Tokens:
    found: Tokens = []
    for token, after in pairwise([*tokens, ""]):
        if token == "a" and after in {"few", "little"}:
            found.append("a-")  # "a few" is some, "few" is hardly any
        elif token == "that" and (after in harmless.POINTERS or after in harmless.SUBJECTS):
            continue  # "said that she", not "that day"
        elif token not in harmless.ARTICLES:
            found.append(token)
    return found


def _with_tagged_verbs(tokens: Tokens) -> Tokens:
    """Verbs as base and tag, with `does not`, `is ...ing` and `likes to` resolved into it."""
    found: Tokens = []
    for token in tokens:
        verb = _VERBS.get(token, token)
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        if before == "not" and before_that in _DO:
            found[-2:] = ["not", _base(verb) + _DO[before_that]]
        elif _tag(verb) == "|ing" and before in {"be", "be|s"}:
            found[-1] = _base(verb) + _tag(before)
        elif _tag(verb) == "|ing" and _base(before) in harmless.TAKES_EITHER:
            found.append(_base(verb))
        elif before == "to" and _base(before_that) in harmless.TAKES_EITHER and verb in _BASES:
            found[-1] = verb
        elif before == "to" and before_that in {"have", "have|s"} and verb in _BASES:
            found[-2:] = ["must", verb]
        elif before == "to" and before_that in {"go", "go|s"} and verb in _BASES - {"work"}:
            # "is going to" has become `go|s` by now; nobody "goes to move".
            found[-2:] = ["will", verb]
        else:
            found.append(verb)
    return found


def _forms_of_verbs() -> Iterator[tuple[str, str]]:
    for base in (*harmless.REGULAR_VERBS, *(forms[0] for forms in harmless.IRREGULAR_VERBS)):
        stem = base + base[-1] if base in harmless.DOUBLING_VERBS else base.removesuffix("e")
        yield base, base
        yield stem + "ing", base + "|ing"
        yield _third_person(base), base + "|s"
    for base in harmless.REGULAR_VERBS:
        stem = base + base[-1] if base in harmless.DOUBLING_VERBS else base.removesuffix("e")
        past = base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeo" else stem + "ed"
        yield past, base + "|past"
    for base, past, participle in harmless.IRREGULAR_VERBS:
        yield participle, base + "|done"
        yield past, base + "|past"
    yield from (
        ("is", "be|s"),
        ("are", "be"),
        ("am", "be"),
        ("was", "be|past"),
        ("were", "be|past"),
    )
    yield from (("has", "have|s"), ("does", "does"), ("do", "do"), ("did", "did"))


def _third_person(base: str) -> str:
    if base.endswith("y") and base[-2] not in "aeo":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "ch", "sh", "o")) else "s")


_VERBS = dict(_forms_of_verbs())
_BASES = frozenset(form for form, verb in _VERBS.items() if form == verb)
_DO = {"do": "", "does": "|s", "did": "|past"}


def _with_phrases(tokens: Tokens) -> Tokens:
    found: Tokens = []
    at = 0
    while at < len(tokens):
        for length in (3, 2, 1):
            window = tokens[at : at + length]
            instead = harmless.PHRASES.get(tuple(map(_base, window)))
            if instead is not None:
                tag = "".join(map(_tag, window))
                found.extend(word.removesuffix("*") + tag * word.endswith("*") for word in instead)
                at += length
                break
        else:
            found.append(tokens[at])
            at += 1
    return found


def _with_negations(tokens: Tokens) -> Tokens:
    """`has no car` as `not have car`, `does not like` as `dislike`, `not ... any` without `any`."""
    found: Tokens = []
    for token in tokens:
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        is_negated = "not" in found or "without" in found
        if token == "no" and _base(before) in _BASES and before not in _DO:
            found[-1:] = ["not", before]
        elif (
            before == "not"
            and _base(token) in {"like", "enjoy"}
            and before_that not in harmless.MODALS
        ):
            found[-1] = "dislike" + _tag(token)
        elif not (token == "any" and is_negated):
            found.append(token)
    return found


def _without_light_words(tokens: Tokens) -> Tokens:
    """The tokens without fillers and the prepositions that a date needs no more than a full stop."""
    found: Tokens = []
    for token, after in pairwise([*tokens, ""]):
        before = found[-1] if found else ""
        weekday = token.removesuffix("s")
        is_idle = (
            token in harmless.FILLERS
            or (token in {"on", "at", "in"} and is_date(after.removesuffix("s")))
            or (token in harmless.POSSESSIVES and _base(before) in {"drink", "eat", "take"})
        )
        if token == ":":
            found.append("be|s")
        elif weekday in WEEKDAYS and weekday != token:
            found.extend(("every", weekday) if before not in {"every", "all"} else (weekday,))
        elif not is_idle:
            found.append(token)
    return found


def _with_synonyms(tokens: Tokens) -> Tokens:
    is_plain = (harmless.NEGATIONS | harmless.COMPARISONS).isdisjoint(tokens)
    found: Tokens = []
    for at, token in enumerate(tokens):
        base = harmless.SYNONYMS.get(_base(token), _base(token))
        if is_plain:
            base = harmless.SCALES.get(base, base)
        if base == "take" and _is_drink(tokens[at + 1 :]):
            base = "drink"
        if base == "to" and "prefer" in map(_base, tokens[:at]) and at + 1 < len(tokens):
            base = "over"
        if token == "call|past" and found and _base(found[-1]) == "be":
            found.append("named")
        elif token == "would" and tokens[at + 1 : at + 2] == ["like"]:
            continue
        elif token == "like" and at and tokens[at - 1] == "would":
            found.append("want|s" if found and found[-1] not in harmless.SUBJECTS else "want")
        else:
            found.append(base + _tag(token))
    return found


def _is_drink(object_and_more: Tokens) -> bool:
    for token in object_and_more:
        if token in harmless.PREPOSITIONS or token == "and":
            return False
        if token in harmless.BEVERAGES:
            return True
    return False


def _with_owners_first(tokens: Tokens) -> Tokens:
    """`manager of ana` as `ana 's manager`, where both are single words."""
    found = [*tokens]
    for at in range(1, len(found) - 1):
        if found[at] != "of" or _is_boundary(found[at - 1]) or _is_boundary(found[at + 1]):
            continue
        if at + 2 == len(found) or _is_boundary(found[at + 2]):
            found[at - 1 : at + 2] = [found[at + 1], "'s", found[at - 1]]
    return found


def _is_boundary(token: str) -> bool:
    """Whether a phrase ends here: at a preposition, a verb, a number or a pause."""
    return (
        token in harmless.PREPOSITIONS
        or token in harmless.MODALS
        or token in {"and", "or", "not", ",", "'s"}
        or _base(token) in _BASES
        or _base(token) == "be"
        or is_number(token)
    )


def _with_pairs_sorted(tokens: Tokens) -> Tokens:
    """`pears and apples` as `apples and pears`, where nothing else hangs on either of the two."""
    found = [*tokens]
    for at in range(1, len(found) - 1):
        if found[at] not in {"and", "or"}:
            continue
        one, other = found[at - 1], found[at + 1]
        is_open = at == 1 or _is_boundary(found[at - 2])
        is_closed = at + 2 == len(found) or _is_boundary(found[at + 2])
        if is_open and is_closed and not _is_boundary(one) and not _is_boundary(other):
            found[at - 1], found[at + 1] = sorted((one, other))
    return [token for token in found if token != ","]


def _with_adverb_first(tokens: Tokens) -> Tokens:
    adverbs = [token for token in tokens if token in harmless.MOBILE_ADVERBS]
    if len(adverbs) != 1 or not {"and", "or", "but", "because", "if", "when"}.isdisjoint(tokens):
        return tokens
    return adverbs + [token for token in tokens if token not in harmless.MOBILE_ADVERBS]


def _active(tokens: Tokens) -> Iterator[Tokens]:
    """`report be written by ana` as `ana wrote report`, for each form the verb may then take."""
    for at in range(1, len(tokens) - 3):
        be, verb, by = tokens[at : at + 3]
        if _base(be) != "be" or _tag(verb) not in {"|past", "|done"} or by != "by":
            continue
        end = next(
            (end for end in range(at + 4, len(tokens)) if tokens[end] in harmless.PREPOSITIONS),
            len(tokens),
        )
        for tag in ("|past",) if be == "be|past" else ("", "|s"):
            yield [*tokens[at + 3 : end], _base(verb) + tag, *tokens[:at], *tokens[end:]]
