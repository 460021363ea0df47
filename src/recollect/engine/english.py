"""An English statement as a canonical sequence of words: harmless variation gone, the rest kept.

A verb carries its form as a tag: `like|s` for likes, `like|past`, `like|ing`. Only words in lower
case are ever touched, since "Grey" may be a name. What counts as the same is for `twins` to say.
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

PAUSES = frozenset({",", ":"})


def canonical(tokens: Tokens, *, owners_count: bool) -> Tokens:
    """The canonical sequence of a statement's tokens.

    One takes one's own tea, so whose it is counts only where the other statement says so too.
    """
    is_definite = not harmless.POINTERS.isdisjoint(_without_leading_user(tokens))
    names = {token.casefold() for token in tokens[1:] if token[:1].isupper()}
    tokens = _taken_apart(_with_plain_openings(_without_lead_in(tokens)))
    tokens = with_units(with_dates(with_numbers(tokens), has_half_days=True))
    tokens = _with_tagged_verbs(_without_articles(tokens))
    tokens = _with_negations(_with_phrases(tokens))
    tokens = _without_light_words(tokens, owners_count=owners_count)
    tokens = _with_synonyms(tokens, names, is_definite=is_definite)
    return _with_adverb_first(_with_pair_sorted(_with_owners_first(tokens)))


def orders(tokens: Tokens) -> Iterator[Tokens]:
    """The sequence itself and the others that say the same: unfronted, active, turned around."""
    yield tokens
    if len(tokens) > _LONGEST_REORDERED:
        return
    yield from _unfronted(tokens)
    yield from _active(tokens)
    if [_base(token) for token in tokens].count("be") == 1:
        at = next(at for at, token in enumerate(tokens) if _base(token) == "be")
        yield [*tokens[at + 1 :], tokens[at], *tokens[:at]]


def kinds(tokens: Tokens) -> frozenset[str]:
    """The words that name a kind in the singular: `seat` in "prefers a window seat"."""
    if "prefer" not in tokens and "prefers" not in tokens:
        return frozenset()
    found: set[str] = set()
    is_open = False
    for token in tokens:
        is_open = token in {"a", "an"} or (is_open and token not in harmless.PREPOSITIONS)
        if is_open and token.islower() and token not in harmless.PERSONS:
            found.add(token)
    return frozenset(found)


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    return _with_s(noun)


_LONGEST_REORDERED = 60  # tokens; a longer text is no single statement
_CLAUSES = frozenset({"and", "or", "but", "because", "if", "when", "while", "that", "who", "which"})
_PLACES = frozenset(
    {"in", "at", "on", "near", "during", "after", "before", "since", "until", "every"}
)


def _base(token: str) -> str:
    return token.partition("|")[0]


def _tag(token: str) -> str:
    return "".join(token.partition("|")[1:])


def _without_leading_user(tokens: Tokens) -> Tokens:
    is_user = [token.casefold() for token in tokens[:2]] == ["the", "user"]
    return tokens[2:] if is_user else tokens


def _without_lead_in(tokens: Tokens) -> Tokens:
    words = tuple(token.casefold() for token in tokens[:4])
    for lead_in in harmless.LEAD_INS:
        if words[: len(lead_in)] == lead_in and len(tokens) > len(lead_in):
            rest = tokens[len(lead_in) :]
            return rest[1:] if rest[0] in PAUSES else rest
    return tokens


def _with_plain_openings(tokens: Tokens) -> Tokens:
    """Function words at the head of a sentence in lower case; "A" only before what is no verb."""
    found: Tokens = []
    for at, token in enumerate(tokens):
        is_head = not found or found[-1] == ","
        word = token.casefold()
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        is_letter = word == "a" and (not after.islower() or after.endswith("s"))
        is_plain = is_head and word in harmless.OPENINGS and not is_letter
        found.append(word if is_plain else token)
    return found


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
            return (token[: -len(ending)], meaning)
    if "-" in word:
        return _hyphenated(token)
    number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    if is_number(number) and is_unit(word.removeprefix(number)):
        return (number, word.removeprefix(number))
    return (token,)


def _hyphenated(token: str) -> tuple[str, ...]:
    """`dark-mode` and `3-year-old` in their words; `e-mail`, `Jean-Luc` and `555-0123` whole."""
    first, *rest = token.split("-")
    is_splittable = all(part.isalpha() and part.islower() for part in rest) and (
        first.isdecimal() or (first.isalpha() and len(first) > 2)
    )
    return (first, *rest) if is_splittable else (token,)


def _without_articles(tokens: Tokens) -> Tokens:
    found: Tokens = []
    for word, after in pairwise([*tokens, ""]):
        if word == "a" and after in {"few", "little"}:
            found.append("a-")  # "a few" is some, "few" is hardly any
        elif word == "that" and (after in harmless.POINTERS or after in harmless.SUBJECTS):
            continue  # "said that she", not "that day"
        elif word == "a" and not after[:1].isalnum():
            found.append(word)  # "plan a"
        elif word not in harmless.ARTICLES:
            found.append(word)
    return found


def _with_tagged_verbs(tokens: Tokens) -> Tokens:
    """Verbs as base and tag, with `does not`, `is ...ing`, `likes to` and `has to` resolved."""
    found: Tokens = []
    for at, word in enumerate(tokens):
        verb = _VERBS.get(word, word)
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        is_infinitive = before == "to" and verb in _BASES
        if before == "not" and before_that in _DO and verb in _BASES:
            found[-2:] = ["not", verb + _DO[before_that]]
        elif (
            verb == "go|ing"
            and before in {"be", "be|s"}
            and _is_infinitive(tokens[at + 1 : at + 3])
        ):
            found[-1] = "will"
        elif is_infinitive and before_that == "will":
            found[-1] = verb
        elif _tag(verb) == "|ing" and before in {"be", "be|s"}:
            found[-1] = _base(verb) + _tag(before)
        elif is_infinitive and _base(before_that) in harmless.TAKES_EITHER:
            # "likes to fish" and "likes fishing", but not "likes fish"
            found[-1] = verb + "|ing"
        elif is_infinitive and before_that in {"have", "have|s"}:
            found[-2:] = ["must", verb]
        else:
            found.append(verb)
    return found


def _is_infinitive(tokens: Tokens) -> bool:
    # "is going to work" may be said of the way there
    return tokens[:1] == ["to"] and len(tokens) > 1 and tokens[1] in _BASES - {"work"}


def _verb_forms() -> Iterator[tuple[str, str]]:
    for base in (*harmless.REGULAR_VERBS, *(forms[0] for forms in harmless.IRREGULAR_VERBS)):
        yield base, base
        yield _lengthened(base) + "ing", base + "|ing"
        yield _with_s(base), base + "|s"
    for base in harmless.REGULAR_VERBS:
        ends_in_y = base.endswith("y") and base[-2] not in "aeo"
        yield base[:-1] + "ied" if ends_in_y else _lengthened(base) + "ed", base + "|past"
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
    yield "has", "have|s"


def _lengthened(base: str) -> str:
    if base in harmless.DOUBLING_VERBS:
        return base + base[-1]
    return base if base.endswith("ee") else base.removesuffix("e")


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "o"}:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


_VERBS = dict(_verb_forms())
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
    is_negated = False
    for word in tokens:
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        is_negated = is_negated or before in {"not", "without"}
        if word == "no" and _base(before) in _BASES:
            found[-1:] = ["not", before]
        elif before == "not" and _base(word) in {"like", "enjoy"} and word not in _BASES:
            found[-1] = "dislike" + _tag(word)
        elif word in {"like", "enjoy"} and before == "not" and before_that in _BARE_SUBJECTS:
            found[-1] = "dislike"
        elif word != "any" or before == "just" or not is_negated:
            found.append(word)
    return found


_BARE_SUBJECTS = frozenset({"i", "I", "you", "we", "they"})


def _without_light_words(tokens: Tokens, *, owners_count: bool) -> Tokens:
    """The tokens without fillers and without the prepositions that a date can do without."""
    found: Tokens = []
    for word, after in pairwise([*tokens, ""]):
        before = found[-1] if found else ""
        is_idle = (
            word in harmless.FILLERS
            or (word in {"on", "at", "in"} and is_date(after.removesuffix("s")))
            or (
                word in harmless.POSSESSIVES
                and not owners_count
                and _base(before) == "take"
                and after in harmless.BEVERAGES
            )
        )
        weekday = word.casefold().removesuffix("s")
        if word == ":":
            found.append("be|s")
        elif weekday in WEEKDAYS and word.endswith("s"):
            found.extend((weekday,) if before in {"every", "all"} else ("every", weekday))
        elif not is_idle:
            found.append(word)
    return found


def _with_synonyms(tokens: Tokens, names: set[str], *, is_definite: bool) -> Tokens:
    """The tokens with every word of a group of synonyms as its first."""
    is_plain = (harmless.NEGATIONS | harmless.COMPARISONS).isdisjoint(tokens)
    persons = names | harmless.PERSONS_SPOKEN_OF
    found: Tokens = []
    for at, word in enumerate(tokens):
        before = found[-1] if found else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        if word == "like" and before == "would":
            found.pop()
            found.append("want" if found and found[-1] in _BARE_SUBJECTS else "want|s")
        elif word in {"call|past", "name|past"} and _base(before) == "be" and after[:1].isupper():
            found.append("named")
        elif word == "for" and _base(before) == "work" and after[:1].isupper():
            found.append("at")
        elif _base(word) == "take" and _is_drink(tokens[at + 1 : at + 8]):
            found.append("drink" + _tag(word))
        elif _base(word) in {"own", "possess"} and is_definite:
            found.append(word)  # who has the keys need not own them
        else:
            base = harmless.SYNONYMS.get(_base(word), _base(word))
            # To love a person is another thing than to like them.
            if is_plain and after.casefold() not in persons:
                base = harmless.SCALES.get(base, base)
            found.append(base + _tag(word))
    return found


def _is_drink(object_and_more: Tokens) -> bool:
    for word in object_and_more:
        if word in harmless.PREPOSITIONS or word == "and":
            return False
        if word in harmless.BEVERAGES:
            return True
    return False


def _with_owners_first(tokens: Tokens) -> Tokens:
    """`manager of Ana` as `Ana 's manager`, where both are single words."""
    found = [*tokens]
    for at in range(1, len(found) - 1):
        if found[at] != "of" or _is_boundary(found[at - 1]) or _is_boundary(found[at + 1]):
            continue
        if at + 2 == len(found) or _is_boundary(found[at + 2]):
            found[at - 1 : at + 2] = [found[at + 1], "'s", found[at - 1]]
    return found


def _is_boundary(token: str) -> bool:
    """Whether a noun phrase ends here: at a preposition, a verb, a number or a pause."""
    return (
        token in harmless.PREPOSITIONS
        or token in harmless.MODALS
        or token in {"and", "or", "not", ",", "'s"}
        or _is_verb(token)
        or is_number(token)
    )


def _is_verb(token: str) -> bool:
    return _base(token) in _BASES or _base(token) == "be"


def _with_pair_sorted(tokens: Tokens) -> Tokens:
    """`likes pears and apples` as `likes apples and pears`, if these two are all that is joined."""
    joints = [at for at, token in enumerate(tokens) if token in {"and", "or", ","}]
    if len(joints) != 1 or not 0 < joints[0] < len(tokens) - 1 or tokens[joints[0]] == ",":
        return tokens
    at = joints[0]
    one, other = tokens[at - 1], tokens[at + 1]
    opening = tokens[at - 2] if at > 1 else ""
    is_open = (
        (at == 1 and one[:1].isupper() and other[:1].isupper())
        or _base(opening) in _BASES
        or opening in harmless.PREPOSITIONS - {"to"}  # "to boil and peel" is a sequence
    )
    is_closed = at + 2 == len(tokens) or _is_boundary(tokens[at + 2])
    if not is_open or not is_closed or _is_boundary(one) or _is_boundary(other):
        return tokens
    pair = sorted((one, other), key=str.casefold)
    return [*tokens[: at - 1], pair[0], tokens[at], pair[1], *tokens[at + 2 :]]


def _with_adverb_first(tokens: Tokens) -> Tokens:
    adverbs = [token for token in tokens if token in harmless.MOBILE_ADVERBS]
    if len(adverbs) != 1 or not _is_simple(tokens):
        return tokens
    return adverbs + [token for token in tokens if token not in harmless.MOBILE_ADVERBS]


def _is_simple(tokens: Tokens) -> bool:
    """Whether the statement is one clause, in which an adverbial can only mean the whole of it."""
    verbs = [token for token in tokens if _is_verb(token)]
    return (
        (_CLAUSES | PAUSES).isdisjoint(tokens)
        and len(verbs) == 1
        and _base(verbs[0]) not in harmless.CLAUSE_VERBS
    )


def _unfronted(tokens: Tokens) -> Iterator[Tokens]:
    """`On Mondays Ana swims` as `Ana swims on Mondays`, for every place the opening may end."""
    if not tokens or not (tokens[0] in _PLACES or is_date(tokens[0])):
        return
    for at in range(1, len(tokens)):
        front, rest = tokens[:at], tokens[at:]
        if rest[0] == ",":
            rest = rest[1:]
        has_one_adverbial = _PLACES.isdisjoint(rest) and not any(map(is_date, rest))
        if has_one_adverbial and "," not in front and _is_simple(front + rest):
            yield rest + front


def _active(tokens: Tokens) -> Iterator[Tokens]:
    """`report was written by Ana` as `Ana wrote report`, in each form the verb may then take."""
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
