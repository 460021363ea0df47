"""Reduce an English statement to a canonical sequence of words, removing harmless variation.

A verb carries its form as a tag: `like|s` for likes, `like|past`, `like|ing`. Only lower-case words
are changed, because "Grey" may be a name. `same_statement` decides which sequences are equal.
"""

from collections.abc import Iterator
from itertools import pairwise

from recollect.memories.dedupe import word_lists
from recollect.memories.dedupe.quantities import (
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


def canonical_words(tokens: Tokens, *, keep_owners: bool) -> Tokens:
    """Return the canonical sequence of a statement's tokens.

    "Takes her tea" and "takes tea" are the same, unless both statements name an owner. Pass
    `keep_owners` in that case.
    """
    is_definite = not word_lists.POINTERS.isdisjoint(_without_leading_user(tokens))
    names = {token.casefold() for token in tokens[1:] if token[:1].isupper()}
    tokens = _split_tokens(_with_plain_openings(_without_lead_in(tokens)))
    tokens = with_units(with_dates(with_numbers(tokens), has_half_days=True))
    tokens = _with_tagged_verbs(_without_articles(tokens))
    tokens = _with_negations(_with_phrases(tokens))
    tokens = _without_light_words(tokens, keep_owners=keep_owners)
    tokens = _with_synonyms(tokens, names, is_definite=is_definite)
    return _with_adverb_first(_with_pair_sorted(_with_owners_first(tokens)))


def orders(tokens: Tokens) -> Iterator[Tokens]:
    """Yield the sequence and its equivalents: adverbial last, active voice, `be` reversed."""
    yield tokens
    if len(tokens) > _MAX_REORDERED:
        return
    yield from _adverbial_last(tokens)
    yield from _active_voice(tokens)
    if [_base(token) for token in tokens].count("be") == 1:
        at = next(at for at, token in enumerate(tokens) if _base(token) == "be")
        yield [*tokens[at + 1 :], tokens[at], *tokens[:at]]


def kinds(tokens: Tokens) -> frozenset[str]:
    """Return the singular words that name a kind: `seat` in "prefers a window seat"."""
    if "prefer" not in tokens and "prefers" not in tokens:
        return frozenset()
    found: set[str] = set()
    is_open = False
    for token in tokens:
        is_open = token in {"a", "an"} or (is_open and token not in word_lists.PREPOSITIONS)
        if is_open and token.islower() and token not in word_lists.PERSONS:
            found.add(token)
    return frozenset(found)


def plural(noun: str) -> str:
    """Return the regular plural of a noun."""
    return _with_s(noun)


_MAX_REORDERED = 60  # tokens; a longer text is more than one statement
_CLAUSE_WORDS = frozenset(
    {"and", "or", "but", "because", "if", "when", "while", "that", "who", "which"}
)
_ADVERBIAL_STARTS = frozenset(
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
    for lead_in in word_lists.LEAD_INS:
        if words[: len(lead_in)] == lead_in and len(tokens) > len(lead_in):
            rest = tokens[len(lead_in) :]
            return rest[1:] if rest[0] in PAUSES else rest
    return tokens


def _with_plain_openings(tokens: Tokens) -> Tokens:
    """Lower-case the function words that open a sentence; but keep the "A" of "A likes tea"."""
    found: Tokens = []
    for at, token in enumerate(tokens):
        is_head = not found or found[-1] == ","
        word = token.casefold()
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        is_letter = word == "a" and (not after.islower() or after.endswith("s"))
        is_plain = is_head and word in word_lists.OPENINGS and not is_letter
        found.append(word if is_plain else token)
    return found


def _split_tokens(tokens: Tokens) -> Tokens:
    return [part for token in tokens for part in _parts(token)]


def _parts(token: str) -> tuple[str, ...]:
    """Split contractions, hyphenated words, and units attached to a number."""
    word = token.casefold()
    if word in word_lists.CONTRACTIONS:
        return word_lists.CONTRACTIONS[word]
    if word.endswith("'s") and len(word) > 2:
        return (token[:-2], "is" if word[:-2] in word_lists.IS_BEFORE_S else "'s")
    for ending, meaning in word_lists.CONTRACTED_ENDINGS.items():
        if word.endswith(ending):
            return (token[: -len(ending)], meaning)
    if "-" in word:
        return _hyphenated(token)
    number = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    if is_number(number) and is_unit(word.removeprefix(number)):
        return (number, word.removeprefix(number))
    return (token,)


def _hyphenated(token: str) -> tuple[str, ...]:
    """Split `dark-mode` and `3-year-old`; keep `e-mail`, `Jean-Luc` and `555-0123` whole."""
    first, *rest = token.split("-")
    is_splittable = all(part.isalpha() and part.islower() for part in rest) and (
        first.isdecimal() or (first.isalpha() and len(first) > 2)
    )
    return (first, *rest) if is_splittable else (token,)


def _without_articles(tokens: Tokens) -> Tokens:
    found: Tokens = []
    for word, after in pairwise([*tokens, ""]):
        if word == "a" and after in {"few", "little"}:
            found.append("a-")  # "a few" means some; "few" means hardly any
        elif word == "that" and (after in word_lists.POINTERS or after in word_lists.SUBJECTS):
            continue  # "said that she", not "that day"
        elif word == "a" and not after[:1].isalnum():
            found.append(word)  # "plan a"
        elif word not in word_lists.ARTICLES:
            found.append(word)
    return found


def _with_tagged_verbs(tokens: Tokens) -> Tokens:
    """Replace verbs by base and tag; resolve `does not`, `is ...ing`, `likes to` and `has to`."""
    found: Tokens = []
    for at, word in enumerate(tokens):
        verb = _VERBS.get(word, word)
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        is_infinitive = before == "to" and verb in _BASE_FORMS
        if before == "not" and before_that in _DO_TAGS and verb in _BASE_FORMS:
            found[-2:] = ["not", verb + _DO_TAGS[before_that]]
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
        elif is_infinitive and _base(before_that) in word_lists.TAKES_EITHER:
            # "likes to fish" equals "likes fishing", but not "likes fish"
            found[-1] = verb + "|ing"
        elif is_infinitive and before_that in {"have", "have|s"}:
            found[-2:] = ["must", verb]
        else:
            found.append(verb)
    return found


def _is_infinitive(tokens: Tokens) -> bool:
    # "is going to work" may mean the way to work
    return tokens[:1] == ["to"] and len(tokens) > 1 and tokens[1] in _BASE_FORMS - {"work"}


def _verb_forms() -> Iterator[tuple[str, str]]:
    for base in (*word_lists.REGULAR_VERBS, *(forms[0] for forms in word_lists.IRREGULAR_VERBS)):
        yield base, base
        yield _stem_before_ending(base) + "ing", base + "|ing"
        yield _with_s(base), base + "|s"
    for base in word_lists.REGULAR_VERBS:
        ends_in_y = base.endswith("y") and base[-2] not in "aeo"
        yield base[:-1] + "ied" if ends_in_y else _stem_before_ending(base) + "ed", base + "|past"
    for base, past, participle in word_lists.IRREGULAR_VERBS:
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


def _stem_before_ending(base: str) -> str:
    if base in word_lists.DOUBLING_VERBS:
        return base + base[-1]
    return base if base.endswith("ee") else base.removesuffix("e")


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "o"}:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


_VERBS = dict(_verb_forms())
_BASE_FORMS = frozenset(form for form, verb in _VERBS.items() if form == verb)
_DO_TAGS = {"do": "", "does": "|s", "did": "|past"}


def _with_phrases(tokens: Tokens) -> Tokens:
    found: Tokens = []
    at = 0
    while at < len(tokens):
        for length in (3, 2, 1):
            window = tokens[at : at + length]
            replacement = word_lists.PHRASES.get(tuple(map(_base, window)))
            if replacement is not None:
                tag = "".join(map(_tag, window))
                found.extend(
                    word.removesuffix("*") + tag * word.endswith("*") for word in replacement
                )
                at += length
                break
        else:
            found.append(tokens[at])
            at += 1
    return found


def _with_negations(tokens: Tokens) -> Tokens:
    """Rewrite `has no car` as `not have car`, `does not like` as `dislike`; drop negated `any`."""
    found: Tokens = []
    is_negated = False
    for word in tokens:
        before = found[-1] if found else ""
        before_that = found[-2] if len(found) > 1 else ""
        is_negated = is_negated or before in {"not", "without"}
        if word == "no" and _base(before) in _BASE_FORMS:
            found[-1:] = ["not", before]
        elif before == "not" and _base(word) in {"like", "enjoy"} and word not in _BASE_FORMS:
            found[-1] = "dislike" + _tag(word)
        elif word in {"like", "enjoy"} and before == "not" and before_that in _NON_THIRD_PERSON:
            found[-1] = "dislike"
        elif word != "any" or before == "just" or not is_negated:
            found.append(word)
    return found


_NON_THIRD_PERSON = frozenset({"i", "I", "you", "we", "they"})


def _without_light_words(tokens: Tokens, *, keep_owners: bool) -> Tokens:
    """Drop fillers, and prepositions before a date."""
    found: Tokens = []
    for word, after in pairwise([*tokens, ""]):
        before = found[-1] if found else ""
        is_droppable = (
            word in word_lists.FILLERS
            or (word in {"on", "at", "in"} and is_date(after.removesuffix("s")))
            or (
                word in word_lists.POSSESSIVES
                and not keep_owners
                and _base(before) == "take"
                and after in word_lists.BEVERAGES
            )
        )
        weekday = word.casefold().removesuffix("s")
        if word == ":":
            found.append("be|s")
        elif weekday in WEEKDAYS and word.endswith("s"):
            found.extend((weekday,) if before in {"every", "all"} else ("every", weekday))
        elif not is_droppable:
            found.append(word)
    return found


def _with_synonyms(tokens: Tokens, names: set[str], *, is_definite: bool) -> Tokens:
    """Replace each synonym by the first word of its group."""
    is_plain = (word_lists.NEGATIONS | word_lists.COMPARISONS).isdisjoint(tokens)
    person_words = names | word_lists.OBJECT_PRONOUNS
    found: Tokens = []
    for at, word in enumerate(tokens):
        before = found[-1] if found else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        if word == "like" and before == "would":
            found.pop()
            found.append("want" if found and found[-1] in _NON_THIRD_PERSON else "want|s")
        elif word in {"call|past", "name|past"} and _base(before) == "be" and after[:1].isupper():
            found.append("named")
        elif word == "for" and _base(before) == "work" and after[:1].isupper():
            found.append("at")
        elif _base(word) == "take" and _has_beverage(tokens[at + 1 : at + 8]):
            found.append("drink" + _tag(word))
        elif _base(word) in {"own", "possess"} and is_definite:
            found.append(word)  # "has the keys" does not mean "owns the keys"
        else:
            base = word_lists.SYNONYMS.get(_base(word), _base(word))
            # Loving a person is not the same as liking them.
            if is_plain and after.casefold() not in person_words:
                base = word_lists.SCALES.get(base, base)
            found.append(base + _tag(word))
    return found


def _has_beverage(object_and_more: Tokens) -> bool:
    for word in object_and_more:
        if word in word_lists.PREPOSITIONS or word == "and":
            return False
        if word in word_lists.BEVERAGES:
            return True
    return False


def _with_owners_first(tokens: Tokens) -> Tokens:
    """Rewrite `manager of Ana` as `Ana 's manager`, if both are single words."""
    found = [*tokens]
    for at in range(1, len(found) - 1):
        if found[at] != "of" or _is_boundary(found[at - 1]) or _is_boundary(found[at + 1]):
            continue
        if at + 2 == len(found) or _is_boundary(found[at + 2]):
            found[at - 1 : at + 2] = [found[at + 1], "'s", found[at - 1]]
    return found


def _is_boundary(token: str) -> bool:
    """Whether a noun phrase ends at this token: a preposition, verb, number or pause."""
    return (
        token in word_lists.PREPOSITIONS
        or token in word_lists.MODALS
        or token in {"and", "or", "not", ",", "'s"}
        or _is_verb(token)
        or is_number(token)
    )


def _is_verb(token: str) -> bool:
    return _base(token) in _BASE_FORMS or _base(token) == "be"


def _with_pair_sorted(tokens: Tokens) -> Tokens:
    """Sort a pair: `likes pears and apples` becomes `likes apples and pears`. Longer lists stay."""
    conjunctions = [at for at, token in enumerate(tokens) if token in {"and", "or", ","}]
    if (
        len(conjunctions) != 1
        or not 0 < conjunctions[0] < len(tokens) - 1
        or tokens[conjunctions[0]] == ","
    ):
        return tokens
    at = conjunctions[0]
    one, other = tokens[at - 1], tokens[at + 1]
    opening = tokens[at - 2] if at > 1 else ""
    is_open = (
        (at == 1 and one[:1].isupper() and other[:1].isupper())
        or _base(opening) in _BASE_FORMS
        or opening in word_lists.PREPOSITIONS - {"to"}  # "to boil and peel" is a sequence
    )
    is_closed = at + 2 == len(tokens) or _is_boundary(tokens[at + 2])
    if not is_open or not is_closed or _is_boundary(one) or _is_boundary(other):
        return tokens
    pair = sorted((one, other), key=str.casefold)
    return [*tokens[: at - 1], pair[0], tokens[at], pair[1], *tokens[at + 2 :]]


def _with_adverb_first(tokens: Tokens) -> Tokens:
    adverbs = [token for token in tokens if token in word_lists.MOBILE_ADVERBS]
    if len(adverbs) != 1 or not _is_simple(tokens):
        return tokens
    return adverbs + [token for token in tokens if token not in word_lists.MOBILE_ADVERBS]


def _is_simple(tokens: Tokens) -> bool:
    """Whether the statement is a single clause, so that an adverbial applies to all of it."""
    verbs = [token for token in tokens if _is_verb(token)]
    return (
        (_CLAUSE_WORDS | PAUSES).isdisjoint(tokens)
        and len(verbs) == 1
        and _base(verbs[0]) not in word_lists.CLAUSE_VERBS
    )


def _adverbial_last(tokens: Tokens) -> Iterator[Tokens]:
    """Rewrite `On Mondays Ana swims` as `Ana swims on Mondays`, for every possible split."""
    if not tokens or not (tokens[0] in _ADVERBIAL_STARTS or is_date(tokens[0])):
        return
    for at in range(1, len(tokens)):
        front, rest = tokens[:at], tokens[at:]
        if rest[0] == ",":
            rest = rest[1:]
        has_one_adverbial = _ADVERBIAL_STARTS.isdisjoint(rest) and not any(map(is_date, rest))
        if has_one_adverbial and "," not in front and _is_simple(front + rest):
            yield rest + front


def _active_voice(tokens: Tokens) -> Iterator[Tokens]:
    """Rewrite `report was written by Ana` as `Ana wrote report`, in each possible verb form."""
    for at in range(1, len(tokens) - 3):
        be, verb, by = tokens[at : at + 3]
        if _base(be) != "be" or _tag(verb) not in {"|past", "|done"} or by != "by":
            continue
        end = next(
            (end for end in range(at + 4, len(tokens)) if tokens[end] in word_lists.PREPOSITIONS),
            len(tokens),
        )
        for tag in ("|past",) if be == "be|past" else ("", "|s"):
            yield [*tokens[at + 3 : end], _base(verb) + tag, *tokens[:at], *tokens[end:]]
