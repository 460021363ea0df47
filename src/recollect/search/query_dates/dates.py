"""Recognise the dates that a question names: "in May 2026", "on 12 September", "last week". Pure.

Reads month names in eight languages, numeric dates and relative dates, and says whether the
question asks for anything else. `languages.py` first translates other expressions into English.
An ambiguous word is not a date: "what may I eat?" names no month.
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from math import inf

from recollect.keywords.tokenizer import language_of
from recollect.search.query_dates.languages import WEEKDAYS, asks_for_anything, dates_in_english

# Each month in English, German, French, Spanish, Italian, Portuguese, Dutch and Russian.
_MONTHS = (
    "january jan januar jänner janvier enero gennaio janeiro januari январь января январе",
    "february feb februar février fevrier febrero febbraio fevereiro февраль февраля феврале",
    "march mar märz mars marzo março maart март марта марте",
    "april apr avril abril aprile апрель апреля апреле",
    "may mai mayo maggio maio mei май мая мае",
    "june jun juni juin junio giugno junho июнь июня июне",
    "july jul juli juillet julio luglio julho июль июля июле",
    "august aug août aout agosto augustus август августа августе",
    "september sep sept septembre septiembre settembre setembro сентябрь сентября сентябре",
    "october oct oktober octobre octubre ottobre outubro октябрь октября октябре",
    "november nov novembre noviembre novembro ноябрь ноября ноябре",
    "december dec dezember décembre decembre diciembre dicembre dezembro декабрь декабря декабре",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
# A month or a year alone is a date only after one of these words: in "of May" it may be a person's
# name, and in "of 2000" an amount.
_PREPOSITIONS = (
    r"in|during|last|this|early|late|mid|(?:beginning|start|middle|end)\ of|im|letzten|diesen|en"
    "|nel|em|op|в"
)
# These words also mark a date, and extend it to all days after or before it.
_OPEN_ENDED = {
    word: opening
    for opening, words in {
        "since": "since seit depuis desde dal sinds vanaf с",
        "after": "after nach après después depois dopo после",
        "until": "until till bis hasta до",
        "before": "before vor avant antes prima",
    }.items()
    for word in words.split()
}
# Months that are also other words: "this may do", "section 2 may apply".
_AMBIGUOUS = frozenset({"may", "march"})
_BEFORE_DATE = re.compile(r"\b(?:on|the|from|by|of|and|to|dated)\ $")
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("a an one", "two couple", "three few", "four", "five", "six", "seven", "eight"), 1
    )
    for word in words.split()
}
_COUNT = rf"(?:a\ )?(?:{'|'.join(_NUMBERS)}|\d{{1,3}})(?:\ of)?"
# The number of days ago.
_DAYS_AGO = {
    "today": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "yesterday": 1,
    "last night": 1,
    "the day before yesterday": 2,
}
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
_UNIT = "|".join(_LENGTHS)

_TIME = re.compile(
    rf"""
    \b(?:(?P<opening>{"|".join(_OPEN_ENDED)})\ (?:(?:the|dem|le|el|o|de|del|du|do)\ )?)?(?:
        (?P<iso>{_YEAR}-\d\d?(?:-\d\d?)?)
        | (?P<figures>\d\d?[./]\d\d?[./]{_YEAR})
        | (?P<day>\d\d?)(?P<mark>st|nd|rd|th|\.|er|º)?\ (?P<of>(?:of|de|di)\ )?(?P<month>{_MONTH})
            (?:,?\ (?:(?:of|de|del)\ )?(?P<year>{_YEAR}))?
        | (?P<month2>{_MONTH})\.?\ (?P<day2>\d\d?)(?:st|nd|rd|th)?(?:,?\ (?P<year2>{_YEAR}))?
        | (?P<month3>{_MONTH}),?\ (?:(?:of|de|del)\ )?(?P<year3>{_YEAR})
        | (?(opening)|(?:{_PREPOSITIONS})\ )(?:(?P<month4>{_MONTH})(?!,?\ \d)|(?P<year4>{_YEAR}))
        | (?:from|between)\ (?P<from>{_YEAR})\ (?:to|and|until|till)\ (?P<to>{_YEAR})
        | (?P<near>{"|".join(map(re.escape, _DAYS_AGO))})
        | (?P<span>last|this|the\ past|the\ last)\ (?P<unit>{_UNIT}|weekend)
        | (?:at|on|over)\ (?P<weekend>the\ weekend)
        | (?:the\ |over\ the\ )?(?:last|past)\ (?P<past>{_COUNT})\ (?P<units>{_UNIT})s
        | (?P<ago>{_COUNT})\ (?P<agos>{_UNIT})s?\ ago
        | (?(opening)|(?:last|on|this)\ )(?P<weekday>{"|".join(WEEKDAYS)})
    )\b(?![-./]\d)
    """,
    re.VERBOSE,
)
# A question with neither a year nor a word of `_DATE_WORDS` names no date and is not examined
# further.
_WORD = re.compile(rf"{_YEAR}|[^\W\d_]+")
_DATE_TOKEN = re.compile(r"[\w./-]*\w")
_DATE_WORDS = {
    *_MONTH_OF,
    *WEEKDAYS,
    "ago",
    "last",
    "past",
    "this",
    "today",
    "weekend",
    "yesterday",
}
_EARLIEST, _LATEST = date(1000, 1, 1), date(9000, 1, 1)
# A date without a year is searched in this many past years, and in the next one.
_YEARS_BACK = 10
# The maximum number of dates read from a question, and of time ranges searched for them.
_MAX_DATES, _MAX_SPANS = 20, 60
# The maximum number of dates that are also searched for as text.
_MAX_NAMED = 5
# Only the beginning of a question is searched for dates; a very long text is not about one date.
_MAX_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class DateRange:
    """From one day to another, both included; in every year if `is_yearly`."""

    first: date
    last: date
    is_yearly: bool = False

    def away(self, day: date) -> float:
        """Return the number of days from `day` to the range; 0 if it lies within."""
        if not self.is_yearly:
            return max(0, (self.first - day).days, (day - self.last).days)
        # The nearest occurrence is in the same year or in a neighbouring one.
        around = (day.year - 1, day.year, day.year + 1)
        return min((each.away(day) for year in around for each in self.of(year)), default=inf)

    def of(self, year: int) -> Iterator["DateRange"]:
        """Return the range in one year, if it exists there; the range itself if it has a year."""
        if not self.is_yearly:
            yield self
            return
        found = _of_month(
            year, self.first.month, self.first.day if self.first == self.last else None
        )
        if found:
            yield found


@dataclass(frozen=True, slots=True)
class QueryDates:
    """The dates that a question names, in its time zone; usually none."""

    days: Sequence[DateRange] = ()
    zone: tzinfo = UTC
    # Whether the question asks for nothing but a time: "What did we talk about yesterday?".
    is_all: bool = False
    # If `is_all`: each day, month with year, or year, as it may appear in a text.
    named: tuple[str, ...] = ()
    # The words of the question that name the dates, in lower case.
    words: frozenset[str] = frozenset()

    def spans(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """Return start and end of each range, the end excluded; recent years of yearly ones."""
        years = range(now.year - _YEARS_BACK, now.year + 2)
        found = [
            (self._begins(each.first), self._begins(_back(each.last, -1)))
            for days in self.days
            for year in years
            for each in days.of(year)
        ]
        return list(dict.fromkeys(found))[:_MAX_SPANS]

    def _begins(self, day: date) -> datetime:
        begins = datetime.combine(min(max(day, _EARLIEST), _LATEST), time(), self.zone)
        return begins.astimezone(UTC)  # PostgreSQL rejects offsets of 16 hours and more

    def nearness(self, at: datetime) -> float:
        """Return 1 on a named date, less with each day of distance, and 0 without dates."""
        if not self.days:
            return 0.0
        day = _local(at, self.zone)
        return max(1 / (1 + days.away(day)) for days in self.days)


NO_DATES = QueryDates()


def dates_in(question: str, asked_at: datetime) -> QueryDates:
    """Return the dates that a question names; relative ones count from `asked_at`."""
    # Not `re.IGNORECASE`: it matches "ſ" as "s", which the tables here do not contain.
    asked = question[:_MAX_CHARACTERS].lower()
    question = dates_in_english(asked)
    words = _WORD.findall(question)
    if not any(word in _DATE_WORDS or word.isdigit() for word in words):
        return NO_DATES
    zone = asked_at.tzinfo or UTC
    # With a date in the year 1, "last month" would be outside the calendar.
    today = min(max(asked_at.date(), _EARLIEST), _LATEST)
    days: list[DateRange] = []
    named: list[str] = []
    rest = question
    date_words = set(_DATE_TOKEN.findall(asked)) - set(
        _DATE_TOKEN.findall(question)
    )  # replaced by English
    for found in islice(_TIME.finditer(question), _MAX_DATES):
        if _is_ambiguous(found, question):
            continue
        read = [each for each in _days(found, today) if each.first <= each.last]
        if read:
            rest = rest.replace(found[0], " ", 1)
            date_words.update(_DATE_TOKEN.findall(found[0]))
            named.append(_text_of(found))
        days += read
    if not days:
        return NO_DATES
    is_all = asks_for_anything(rest, language_of(asked))
    return QueryDates(
        days,
        zone,
        is_all=is_all,
        named=_first_names(filter(None, named)) if is_all else (),
        words=frozenset(date_words),
    )


def _first_names(named: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(islice(named, _MAX_NAMED)))


def _is_ambiguous(found: re.Match[str], question: str) -> bool:
    """Whether a possible month may as well be a verb."""
    if found["month4"] in _AMBIGUOUS:
        return found[0].startswith("this ")
    if found["month"] not in _AMBIGUOUS or found["year"] or found["mark"] or found["of"]:
        return False
    goes_on = question[found.end() : found.end() + 2].strip().isalpha()
    return goes_on and not (found["opening"] or _BEFORE_DATE.search(question[: found.start()]))


def _text_of(found: re.Match[str]) -> str:
    """Return the date as a text may contain it, without ambiguous words such as "may" alone."""
    if found["opening"]:
        return ""
    if day := found["day"] or found["day2"]:
        return f"{day} {found['month'] or found['month2']}"
    if month := found["month3"]:
        return f"{month} {found['year3']}"
    return found["iso"] or found["figures"] or found["year4"] or ""


def _local(at: datetime, zone: tzinfo) -> date:
    try:
        return at.astimezone(zone).date()
    except OverflowError:  # the last day of the calendar, in a zone further east
        return at.date()


def _days(found: re.Match[str], today: date) -> Iterator[DateRange]:
    """Return the possible readings: two if day and month may be swapped, none for 31 February."""
    if found["iso"]:
        year, month, *day = map(int, found["iso"].split("-"))
        readings = [_of_month(year, month, *day)]
    elif found["figures"]:
        one, other, year = map(int, re.split("[./]", found["figures"]))
        readings = [_of_month(year, other, one)]
        if "/" in found["figures"] and one != other:
            readings.append(_of_month(year, one, other))
    elif month := found["month"] or found["month2"] or found["month3"] or found["month4"]:
        day = found["day"] or found["day2"]
        year = found["year"] or found["year2"] or found["year3"]
        readings = [
            _of_month(int(year) if year else None, _MONTH_OF[month], int(day) if day else None)
        ]
    elif found["year4"]:
        readings = [_years(found["year4"], found["year4"])]
    elif found["from"]:
        readings = [_years(found["from"], found["to"])]
    else:
        readings = [_relative_days(found, today)]
    opening = _OPEN_ENDED.get(found["opening"])
    return (_open_ended(each, opening, today) if opening else each for each in readings if each)


def _years(first: str, last: str) -> DateRange:
    return DateRange(date(int(first), 1, 1), date(int(last), 12, 31))


def _open_ended(days: DateRange, opening: str, today: date) -> DateRange:
    """Return all days since, after, until or before a range; without a year, the latest one."""
    if days.is_yearly:
        begun = (each for year in (today.year, today.year - 1) for each in days.of(year))
        days = next((each for each in begun if each.first <= today), days)
    if opening == "since":
        return DateRange(days.first, max(days.first, today))
    if opening == "after":
        return DateRange(_back(days.last, -1), max(_back(days.last, -1), today))
    return DateRange(_EARLIEST, days.last if opening == "until" else _back(days.first, 1))


def _of_month(year: int | None, month: int, day: int | None = None) -> DateRange | None:
    """Return the day, or the whole month; None if the calendar has no such day."""
    # Without a year, a leap year is used: 29 February exists in some years.
    named = year or 2000
    if not (MINYEAR <= named <= MAXYEAR and 1 <= month <= 12):
        return None
    if day is not None and not 1 <= day <= monthrange(named, month)[1]:
        return None
    first, last = (1, monthrange(named, month)[1]) if day is None else (day, day)
    return DateRange(date(named, month, first), date(named, month, last), is_yearly=year is None)


def _relative_days(found: re.Match[str], today: date) -> DateRange:
    """Return the range of a relative date: yesterday, last week, two months ago."""
    if found["near"]:
        return _single(today, -_DAYS_AGO[found["near"]])
    if found["weekday"]:
        back = (today.weekday() - WEEKDAYS.index(found["weekday"])) % 7
        return _single(today, -(back or 7))
    if found["ago"]:
        length = _LENGTHS[found["agos"]]
        middle = _back(today, _number(found["ago"]) * length)
        # "Two months ago" is approximate: the range is as long as its unit.
        return DateRange(_back(middle, length // 2), _back(middle, -(length // 2)))
    if found["past"]:
        length = _number(found["past"]) * _LENGTHS[found["units"]]
        return DateRange(_back(today, length), today)
    if found["weekend"]:
        return _span("last", "weekend", today)
    return _span(found["span"], found["unit"], today)


def _span(which: str, unit: str, today: date) -> DateRange:
    """Return a calendar week, month or year; "the past month" instead ends today."""
    if which.startswith("the ") and unit != "weekend":
        return DateRange(_back(today, _LENGTHS[unit]), today)
    if unit == "day":
        return _single(today, -(which == "last"))
    back = which != "this"
    if unit in {"week", "weekend"}:
        monday = _back(today, today.weekday() + 7 * back)
        return DateRange(_back(monday, -5 if unit == "weekend" else 0), _back(monday, -6))
    if unit == "year":
        return DateRange(date(today.year - back, 1, 1), date(today.year - back, 12, 31))
    last = today.replace(day=1) - timedelta(days=1) if back else today
    return DateRange(last.replace(day=1), last.replace(day=monthrange(last.year, last.month)[1]))


def _single(today: date, days: int) -> DateRange:
    day = _back(today, -days)
    return DateRange(day, day)


def _back(day: date, days: int) -> date:
    """Return the date `days` earlier, limited to the first date of the calendar."""
    try:
        return day - timedelta(days=days)
    except OverflowError:
        return date(MINYEAR, 1, 1)


def _number(text: str) -> int:
    word = text.removesuffix(" of").split()[-1]
    return _NUMBERS.get(word) or int(word)
