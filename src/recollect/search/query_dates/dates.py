"""Which days a question speaks of: "in May 2026", "on 12 September", "last week". Pure.

Months by name in eight languages, dates in figures, what is told from today, and whether anything
but the days is asked for; what other languages tell otherwise is put into English first, by
`languages.py`. What is no date for certain is none: nobody asks about a month with "what may I
eat?".
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
# A month or a year alone is a time only where a word like this stands before it: "of May" may be
# somebody's name, and "of 2000" an amount.
_WITHIN = (
    r"in|during|last|this|early|late|mid|(?:beginning|start|middle|end)\ of|im|letzten|diesen|en"
    "|nel|em|op|в"
)
# Or one that opens it to a side: what was said since then, or before.
_OPENING = {
    word: opening
    for opening, words in {
        "since": "since seit depuis desde dal sinds vanaf с",
        "after": "after nach après después depois dopo после",
        "until": "until till bis hasta до",
        "before": "before vor avant antes prima",
    }.items()
    for word in words.split()
}
# Months that are other words, too: "this may do", "section 2 may apply".
_WORDS_TOO = frozenset({"may", "march"})
_CERTAIN = re.compile(r"\b(?:on|the|from|by|of|and|to|dated)\ $")
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("a an one", "two couple", "three few", "four", "five", "six", "seven", "eight"), 1
    )
    for word in words.split()
}
_COUNT = rf"(?:a\ )?(?:{'|'.join(_NUMBERS)}|\d{{1,3}})(?:\ of)?"
# How many days ago.
_NEAR = {
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
    \b(?:(?P<opening>{"|".join(_OPENING)})\ (?:(?:the|dem|le|el|o|de|del|du|do)\ )?)?(?:
        (?P<iso>{_YEAR}-\d\d?(?:-\d\d?)?)
        | (?P<figures>\d\d?[./]\d\d?[./]{_YEAR})
        | (?P<day>\d\d?)(?P<mark>st|nd|rd|th|\.|er|º)?\ (?P<of>(?:of|de|di)\ )?(?P<month>{_MONTH})
            (?:,?\ (?:(?:of|de|del)\ )?(?P<year>{_YEAR}))?
        | (?P<month2>{_MONTH})\.?\ (?P<day2>\d\d?)(?:st|nd|rd|th)?(?:,?\ (?P<year2>{_YEAR}))?
        | (?P<month3>{_MONTH}),?\ (?:(?:of|de|del)\ )?(?P<year3>{_YEAR})
        | (?(opening)|(?:{_WITHIN})\ )(?:(?P<month4>{_MONTH})(?!,?\ \d)|(?P<year4>{_YEAR}))
        | (?:from|between)\ (?P<from>{_YEAR})\ (?:to|and|until|till)\ (?P<to>{_YEAR})
        | (?P<near>{"|".join(map(re.escape, _NEAR))})
        | (?P<span>last|this|the\ past|the\ last)\ (?P<unit>{_UNIT}|weekend)
        | (?:at|on|over)\ (?P<weekend>the\ weekend)
        | (?:the\ |over\ the\ )?(?:last|past)\ (?P<past>{_COUNT})\ (?P<units>{_UNIT})s
        | (?P<ago>{_COUNT})\ (?P<agos>{_UNIT})s?\ ago
        | (?(opening)|(?:last|on|this)\ )(?P<weekday>{"|".join(WEEKDAYS)})
    )\b(?![-./]\d)
    """,
    re.VERBOSE,
)
# A question that has neither a year nor one of these names no day, and is spared the rest.
_WORD = re.compile(rf"{_YEAR}|[^\W\d_]+")
_SAID = re.compile(r"[\w./-]*\w")
_TELLING = {*_MONTH_OF, *WEEKDAYS, "ago", "last", "past", "this", "today", "weekend", "yesterday"}
_EARLIEST, _LATEST = date(1000, 1, 1), date(9000, 1, 1)
# A day of no year is looked for in so many years back, and in the next one.
_YEARS_BACK = 10
# So many times are read of a question, and so many of theirs asked for: each is a search.
_MOST_TIMES, _MOST_SPANS = 20, 60
# So many of the times that are named are looked for in texts.
_MOST_NAMED = 5
# So much of a question is read for dates; whoever pastes a book asks about no day.
_READ = 2_000


@dataclass(frozen=True, slots=True)
class DateRange:
    """From one day to another, both included; those of every year where none was named."""

    first: date
    last: date
    is_yearly: bool = False

    def away(self, day: date) -> float:
        """How many days lie between; 0 for one of these."""
        if not self.is_yearly:
            return max(0, (self.first - day).days, (day - self.last).days)
        # Every year's are within a year of the day's own.
        around = (day.year - 1, day.year, day.year + 1)
        return min((each.away(day) for year in around for each in self.of(year)), default=inf)

    def of(self, year: int) -> Iterator["DateRange"]:
        """Those of one year, if it has them; one's own where the year was named."""
        if not self.is_yearly:
            yield self
            return
        found = _dated(year, self.first.month, self.first.day if self.first == self.last else None)
        if found:
            yield found


@dataclass(frozen=True, slots=True)
class QueryDates:
    """The days that a question names, where it was asked; mostly none."""

    days: Sequence[DateRange] = ()
    zone: tzinfo = UTC
    # Nothing but the time is asked for: "What did we talk about yesterday?".
    is_all: bool = False
    # Then, each day, month with its year or year as a text may have it too.
    named: tuple[str, ...] = ()
    # The words that say so, in lower case.
    words: frozenset[str] = frozenset()

    def spans(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """From when to when, the end excluded; of those of every year the latest ones."""
        years = range(now.year - _YEARS_BACK, now.year + 2)
        found = [
            (self._begins(each.first), self._begins(_back(each.last, -1)))
            for days in self.days
            for year in years
            for each in days.of(year)
        ]
        return list(dict.fromkeys(found))[:_MOST_SPANS]

    def _begins(self, day: date) -> datetime:
        begins = datetime.combine(min(max(day, _EARLIEST), _LATEST), time(), self.zone)
        return begins.astimezone(UTC)  # PostgreSQL takes no offset of 16 hours and more

    def nearness(self, at: datetime) -> float:
        """1 on a day that is meant, less with every day away from it; 0 where none is."""
        if not self.days:
            return 0.0
        day = _local(at, self.zone)
        return max(1 / (1 + days.away(day)) for days in self.days)


NO_DATES = QueryDates()


def dates_in(question: str, asked_at: datetime) -> QueryDates:
    """The days that a question names; what it tells from today, from the day it was asked."""
    # Not by `re.IGNORECASE`, to which an old "ſ" is an "s" that no table here knows.
    asked = question[:_READ].lower()
    question = dates_in_english(asked)
    words = _WORD.findall(question)
    if not any(word in _TELLING or word.isdigit() for word in words):
        return NO_DATES
    zone = asked_at.tzinfo or UTC
    # Whoever asks as of the year 1 must not fall off the calendar with "last month".
    today = min(max(asked_at.date(), _EARLIEST), _LATEST)
    days: list[DateRange] = []
    named: list[str] = []
    rest = question
    saying = set(_SAID.findall(asked)) - set(_SAID.findall(question))  # told in English
    for found in islice(_TIME.finditer(question), _MOST_TIMES):
        if _is_doubtful(found, question):
            continue
        read = [each for each in _days(found, today) if each.first <= each.last]
        if read:
            rest = rest.replace(found[0], " ", 1)
            saying.update(_SAID.findall(found[0]))
            named.append(_written(found))
        days += read
    if not days:
        return NO_DATES
    is_all = asks_for_anything(rest, language_of(asked))
    return QueryDates(
        days,
        zone,
        is_all=is_all,
        named=_few(filter(None, named)) if is_all else (),
        words=frozenset(saying),
    )


def _few(named: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(islice(named, _MOST_NAMED)))


def _is_doubtful(found: re.Match[str], question: str) -> bool:
    """Whether what looks like a month may as well be a verb."""
    if found["month4"] in _WORDS_TOO:
        return found[0].startswith("this ")
    if found["month"] not in _WORDS_TOO or found["year"] or found["mark"] or found["of"]:
        return False
    goes_on = question[found.end() : found.end() + 2].strip().isalpha()
    return goes_on and not (found["opening"] or _CERTAIN.search(question[: found.start()]))


def _written(found: re.Match[str]) -> str:
    """The time without words that texts have for other reasons: "may" alone is no month there."""
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
    except OverflowError:  # the last day of the calendar, further east
        return at.date()


def _days(found: re.Match[str], today: date) -> Iterator[DateRange]:
    """One reading, or two where figures leave open which is the month; none for 31 February."""
    if found["iso"]:
        year, month, *day = map(int, found["iso"].split("-"))
        readings = [_dated(year, month, *day)]
    elif found["figures"]:
        one, other, year = map(int, re.split("[./]", found["figures"]))
        readings = [_dated(year, other, one)]
        if "/" in found["figures"] and one != other:
            readings.append(_dated(year, one, other))
    elif month := found["month"] or found["month2"] or found["month3"] or found["month4"]:
        day = found["day"] or found["day2"]
        year = found["year"] or found["year2"] or found["year3"]
        readings = [
            _dated(int(year) if year else None, _MONTH_OF[month], int(day) if day else None)
        ]
    elif found["year4"]:
        readings = [_years(found["year4"], found["year4"])]
    elif found["from"]:
        readings = [_years(found["from"], found["to"])]
    else:
        readings = [_told_from(found, today)]
    opening = _OPENING.get(found["opening"])
    return (_opened(each, opening, today) if opening else each for each in readings if each)


def _years(first: str, last: str) -> DateRange:
    return DateRange(date(int(first), 1, 1), date(int(last), 12, 31))


def _opened(days: DateRange, opening: str, today: date) -> DateRange:
    """All days since, after, until or before these; those of no year are the latest that began."""
    if days.is_yearly:
        begun = (each for year in (today.year, today.year - 1) for each in days.of(year))
        days = next((each for each in begun if each.first <= today), days)
    if opening == "since":
        return DateRange(days.first, max(days.first, today))
    if opening == "after":
        return DateRange(_back(days.last, -1), max(_back(days.last, -1), today))
    return DateRange(_EARLIEST, days.last if opening == "until" else _back(days.first, 1))


def _dated(year: int | None, month: int, day: int | None = None) -> DateRange | None:
    """The day, or the whole month; None where the calendar has no such day."""
    # A leap year stands for all of them: 29 February comes in some.
    named = year or 2000
    if not (MINYEAR <= named <= MAXYEAR and 1 <= month <= 12):
        return None
    if day is not None and not 1 <= day <= monthrange(named, month)[1]:
        return None
    first, last = (1, monthrange(named, month)[1]) if day is None else (day, day)
    return DateRange(date(named, month, first), date(named, month, last), is_yearly=year is None)


def _told_from(found: re.Match[str], today: date) -> DateRange:
    """Yesterday, last week, two months ago, ..."""
    if found["near"]:
        return _single(today, -_NEAR[found["near"]])
    if found["weekday"]:
        back = (today.weekday() - WEEKDAYS.index(found["weekday"])) % 7
        return _single(today, -(back or 7))
    if found["ago"]:
        length = _LENGTHS[found["agos"]]
        middle = _back(today, _number(found["ago"]) * length)
        # "Two months ago" is about so long ago: as uncertain as what it is told in.
        return DateRange(_back(middle, length // 2), _back(middle, -(length // 2)))
    if found["past"]:
        length = _number(found["past"]) * _LENGTHS[found["units"]]
        return DateRange(_back(today, length), today)
    if found["weekend"]:
        return _span("last", "weekend", today)
    return _span(found["span"], found["unit"], today)


def _span(which: str, unit: str, today: date) -> DateRange:
    """A week, month or year as the calendar has them; "the past month" ends today."""
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
    """So many days before; no further than there are dates."""
    try:
        return day - timedelta(days=days)
    except OverflowError:
        return date(MINYEAR, 1, 1)


def _number(text: str) -> int:
    word = text.removesuffix(" of").split()[-1]
    return _NUMBERS.get(word) or int(word)
