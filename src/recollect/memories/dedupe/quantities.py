"""Bring numbers, units, dates and times in a token list to one spelling, so that equals match."""

import re
from collections.abc import Callable
from datetime import date

Tokens = list[str]

# The token that a reader produces at a position, and how many tokens it consumes.
Found = tuple[str, int] | None


def with_dates(tokens: Tokens, *, has_half_days: bool) -> Tokens:
    """Replace dates and times of day by `@2026-03-15`, `@--03-15`, `@2026-03` or `@17:00`.

    If the language uses a 12-hour clock, `6:30` is ambiguous and stays as written.
    """
    return _replace(
        tokens,
        lambda at: _date_at(tokens, at) or _time_at(tokens, at, has_half_days=has_half_days),
    )


def with_numbers(tokens: Tokens) -> Tokens:
    """Replace English number words by digits: `twenty five` by `25`, `third` by `3rd`."""
    return _replace(tokens, lambda at: _number_at(tokens, at) or _ordinal_at(tokens, at))


def with_units(tokens: Tokens) -> Tokens:
    """Bring the unit after a number to one spelling, and `$5` to `5 dollar`."""
    found: Tokens = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else ""
        if token in _CURRENCIES and at + 1 < len(tokens) and is_number(tokens[at + 1]):
            continue
        if is_number(token) and before in _CURRENCIES:
            found.extend((token, _CURRENCIES[before]))
        else:
            found.append(_UNITS.get(token.casefold(), token) if is_number(before) else token)
    return found


def is_number(token: str) -> bool:
    """Whether the token is a plain number in digits."""
    return token.replace(".", "", 1).isdecimal()


def is_date(token: str) -> bool:
    """Whether the token is a date, a time of day, a weekday, a month or a year."""
    word = token.casefold()
    return (
        token[:1] == "@"
        or word in WEEKDAYS
        or _YEAR.fullmatch(token) is not None
        or (word in _MONTHS and token not in _ALSO_WORDS)
    )


def is_unit(word: str) -> bool:
    """Whether the word can be attached to a number: `5km`, `5pm`."""
    return word in _UNITS or word in {"am", "pm"}


WEEKDAYS = frozenset(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])

_UNITS = {
    spelling: spellings.split()[0]
    for spellings in (
        "kg kgs kilo kilos kilogram kilograms",
        "km kms kilometer kilometers kilometre kilometres",
        "cm centimeter centimeters centimetre centimetres",
        "mm millimeter millimeters millimetre millimetres",
        "mg milligram milligrams",
        "ml milliliter milliliters millilitre millilitres",
        "lb lbs",
        "mile miles",
        "second seconds sec secs",
        "minute minutes min mins",
        "hour hours hr hrs h",
        "day days",
        "week weeks",
        "month months",
        "year years",
        "time times",
        "gb gigabyte gigabytes",
        "mb megabyte megabytes",
        "euro euros eur",
        "dollar dollars",
        "percent %",
    )
    for spelling in spellings.split()
}
_CURRENCIES = {"$": "dollar", "€": "euro"}

_SMALL_NUMBERS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS = {
    word: 10 * number
    for number, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_MULTIPLES = {"hundred": 100, "thousand": 1000}
_ORDINALS = {"first": "1st", "second": "2nd", "third": "3rd"} | {
    word: f"{number}th"
    for number, word in enumerate(
        ["fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"],
        start=4,
    )
}
# After these words, "one" is a pronoun and not a number.
_BEFORE_PRONOUN = frozenset(["no", "any", "some", "every", "each", "this", "that", "the", "which"])

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero",
            "february feb februar février febrero",
            "march mar märz mars marzo",
            "april apr avril abril",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet julio",
            "august aug août agosto",
            "september sep sept septembre septiembre",
            "october oct oktober octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember décembre diciembre",
        ),
        start=1,
    )
    for name in names.split()
}
# In lower case, these are also ordinary words.
_ALSO_WORDS = frozenset({"may", "march", "mar"})
_ISO_DATE = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_DOTTED_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_SLASHED_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d{2}")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")


def _replace(tokens: Tokens, read: Callable[[int], Found]) -> Tokens:
    found: Tokens = []
    at = 0
    while at < len(tokens):
        token, used = read(at) or (tokens[at], 1)
        found.append(token)
        at += used
    return found


def _word(tokens: Tokens, at: int) -> str:
    return tokens[at].casefold() if 0 <= at < len(tokens) else ""


def _number_at(tokens: Tokens, at: int) -> Found:
    word, after = _word(tokens, at), _word(tokens, at + 1)
    if word == "one" and _word(tokens, at - 1) in _BEFORE_PRONOUN:
        return None
    if word in _TENS:
        value, used = _TENS[word], 1
        if 0 < _SMALL_NUMBERS.get(after, 0) < 10:
            value, used = value + _SMALL_NUMBERS[after], 2
    elif word in _SMALL_NUMBERS:
        value, used = _SMALL_NUMBERS[word], 1
    else:
        return None
    multiple = _MULTIPLES.get(_word(tokens, at + used))
    return (str(value * multiple), used + 1) if multiple else (str(value), used)


def _ordinal_at(tokens: Tokens, at: int) -> Found:
    # "30 second timeout" and "a second" are durations.
    before = _word(tokens, at - 1)
    ordinal = _ORDINALS.get(_word(tokens, at))
    return (ordinal, 1) if ordinal and not is_number(before) and before != "a" else None


def _date_at(tokens: Tokens, at: int) -> Found:
    token = tokens[at]
    if match := _ISO_DATE.fullmatch(token):
        return _day_of(int(match[1]), int(match[2]), int(match[3]), 1)
    if match := _DOTTED_DATE.fullmatch(token):
        return _day_of(int(match[3]), int(match[2]), int(match[1]), 1)
    if match := _SLASHED_DATE.fullmatch(token):
        return _slashed_date(int(match[1]), int(match[2]), int(match[3]))
    return _day_and_month_at(tokens, at) or _month_first_at(tokens, at)


def _slashed_date(one: int, two: int, year: int) -> Found:
    """Return the date if only one reading is possible; 3/4/2026 stays as written."""
    if one > 12 or one == two:
        return _day_of(year, two, one, 1)
    return _day_of(year, one, two, 1) if two > 12 else None


def _day_and_month_at(tokens: Tokens, at: int) -> Found:
    """`15 March`, `15th of March, 2026`, `15 de marzo de 2026`."""
    day = _DAY.fullmatch(tokens[at])
    month_at = at + 1 + (_word(tokens, at + 1) in {"of", "de"})
    month = _month_at(tokens, month_at)
    return _with_year(tokens, at, month_at + 1, month, int(day[1])) if day and month else None


def _month_first_at(tokens: Tokens, at: int) -> Found:
    """`March 15`, `March 15, 2026`, `March 2026`."""
    month = _month_at(tokens, at)
    if not month:
        return None
    day = _DAY.fullmatch(_word(tokens, at + 1))
    if day:
        return _with_year(tokens, at, at + 2, month, int(day[1]))
    year_at = _year_at(tokens, at + 1)
    return (f"@{tokens[year_at]}-{month:02}", year_at + 1 - at) if year_at else None


def _with_year(tokens: Tokens, start: int, end: int, month: int, day: int) -> Found:
    year_at = _year_at(tokens, end)
    if year_at:
        return _day_of(int(tokens[year_at]), month, day, year_at + 1 - start)
    return f"@--{month:02}-{day:02}", end - start


def _year_at(tokens: Tokens, at: int) -> int | None:
    at += _word(tokens, at) in {"of", "de", ","}
    return at if _YEAR.fullmatch(_word(tokens, at)) else None


def _month_at(tokens: Tokens, at: int) -> int | None:
    name = _word(tokens, at)
    if name in _ALSO_WORDS and tokens[at] == name:
        return None
    return _MONTHS.get(name)


def _day_of(year: int, month: int, day: int, used: int) -> Found:
    try:
        return f"@{date(year, month, day).isoformat()}", used
    except ValueError:
        return None  # not a valid date: left as written


def _time_at(tokens: Tokens, at: int, *, has_half_days: bool) -> Found:
    word = _word(tokens, at)
    if word in {"noon", "midday"}:
        return "@12:00", 1
    if word == "midnight":
        return "@00:00", 1
    clock = _CLOCK.fullmatch(word)
    half = _word(tokens, at + 1).replace(".", "")
    hour = int(clock[1]) if clock else int(word) if word.isdecimal() and len(word) < 3 else 0
    minute = clock[2] if clock else "00"
    if half in {"am", "pm"} and 0 < hour <= 12:
        return f"@{hour % 12 + 12 * (half == 'pm'):02}:{minute}", 2
    is_unambiguous = clock and not (has_half_days and len(clock[1]) == 1)
    return (f"@{hour:02}:{minute}", 1) if is_unambiguous else None
