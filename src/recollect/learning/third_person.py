"""Rewrite a sentence in the third person, with absolute dates. English. Pure."""

import re
from datetime import datetime, timedelta


def _words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# Common shortcuts of phone typing, and their correct form.
_TYPING_FIXES = [
    (re.compile(r"[’`]"), "'"),
    (re.compile(r"\bi(?=['\s])"), "I"),
    (re.compile(r"\b(?:Im|im)\b"), "I'm"),
    (re.compile(r"\b(?:Ive|ive)\b"), "I've"),
    (re.compile(r"\b(do|does|did|is|was|has|have|would|could|should|ca|wo)nt\b"), r"\1n't"),
]


def expand_contractions(sentence: str) -> str:
    """Restore missing apostrophes and the capital I."""
    for pattern, right in _TYPING_FIXES:
        sentence = pattern.sub(right, sentence)
    return sentence


# First-person phrases and their third-person form. The order matters.
_PERSONS = [
    (r"\bI'm\b|\bI am\b", "{who} is"),
    (r"\bI've been\b|\bI have been\b", "{who} has been"),
    (r"\bI've\b", "{who} has"),
    (r"\bI have\b", "{who} has"),
    (r"\bI'll\b", "{who} will"),
    (r"\bI'd\b", "{who} would"),
    (r"\bI don't\b|\bI do not\b", "{who} does not"),
    (r"\bI do\b", "{who} does"),
    (r"\bI was\b", "{who} was"),
]
# After the user was named in a sentence, "my" becomes "their". Before that, it becomes "the
# user's": otherwise "my brother sold my car" would mean the brother's car. A second "I" stays "the
# user", because "they" could mean a person named in between.
_POSSESSIVES = re.compile(r"\b(?:(?i:myself|mine|my)|[Mm]e)\b")
_NAMES_USER = re.compile(r"\b(?:I|[Mm]e)\b")
_AFTER_SUBJECT = {"my": "their", "mine": "theirs", "me": "them", "myself": "themselves"}
_BEFORE_SUBJECT = {"my": "{who}'s", "mine": "{who}'s", "me": "{who}", "myself": "themselves"}
_SENTENCES = re.compile(r".+?(?:[.!?]\s+|$)", re.DOTALL)
_VERB = re.compile(
    r"\bI((?: (?:\w+ly|also|just|still|now|always|never|usually|really|often))*) "
    r"(\w+(?:'\w+)?)\b"
)
# Verbs that keep their form: auxiliaries and irregular past forms.
_UNCHANGED = _words(
    "ate became began bent bet bled blew bore bought bound bred broke brought built burst "
    "came can can't cannot caught chose cost could couldn't cut dealt did didn't drank drew "
    "drove dug fed fell felt fled flew forgot fought found gave got grew had heard held hit "
    "hung hurt kept knew led left lent let lost made may meant met might must paid put quit "
    "ran read rode rose said sang sat saw sent set shook shot should shut slept sold sought "
    "spent split spoke spread stole stood struck stuck swam swore swung taught thought threw "
    "told took tore understood was went were will woke won won't wore would wouldn't wrote"
)


_USER = "The user"
_NEGATED = {"don't": "does not", "haven't": "has not"}


# Without one of these words, a statement ("we ...", a request) is quoted, not rewritten.
_FIRST_PERSON = re.compile(r"\bI\b|\b(?:my|me|mine)\b", re.IGNORECASE)


def retell(text: str) -> str:
    """Rewrite a first-person text in the third person; return any other text unchanged."""
    return to_third_person(text) if _FIRST_PERSON.search(text) else text


def to_third_person(sentence: str) -> str:
    """Rewrite a sentence in the third person; quote it if it is not in the first person."""
    if not _FIRST_PERSON.search(sentence):
        quote = sentence[:1].upper() + sentence[1:].rstrip(".!")
        return f"{_USER} said: “{quote}.”"
    sentence = "".join(_replace_possessives(each) for each in _SENTENCES.findall(sentence))
    for pattern, replacement in _PERSONS:
        sentence = re.sub(pattern, replacement.format(who=_USER), sentence, flags=re.IGNORECASE)
    sentence = _VERB.sub(lambda match: f"{_USER}{match[1]} {_conjugate(match[2])}", sentence)
    sentence = re.sub(r"\bI\b", _USER, sentence)
    # Lower case inside a sentence.
    sentence = re.sub(rf"(?<=[\w,;:]\s){_USER}", _USER.lower(), sentence)
    sentence = sentence[:1].upper() + sentence[1:]
    return sentence.rstrip(".!") + "."


def _replace_possessives(sentence: str) -> str:
    named = _NAMES_USER.search(sentence)

    def replacement(match: re.Match[str]) -> str:
        words = _AFTER_SUBJECT if named and named.start() < match.start() else _BEFORE_SUBJECT
        return words[match[0].lower()].format(who=_USER)

    return _POSSESSIVES.sub(replacement, sentence)


def _conjugate(verb: str) -> str:
    lowered = verb.lower()
    if lowered in _NEGATED:
        return _NEGATED[lowered]
    is_past = lowered.endswith("ed") and not lowered.endswith("eed")
    if lowered in _UNCHANGED or is_past or lowered.endswith("n't"):
        return verb
    if lowered == "have":
        return "has"
    if lowered.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    if lowered.endswith("y") and lowered[-2:-1] not in set("aeiou"):
        return verb[:-1] + "ies"
    return verb + "s"


_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_NEAR_DAYS = {"today": 0, "tonight": 0, "this morning": 0, "this evening": 0, "tomorrow": 1,
         "yesterday": -1, "the day after tomorrow": 2, "the day before yesterday": -2}  # fmt: skip
_RELATIVE = re.compile(
    r"\b(?:the day after tomorrow|the day before yesterday|today|tonight|this morning|this evening|"
    r"tomorrow|yesterday)\b|\b(?P<which>next|this|last|on|this coming) (?P<day>"
    + "|".join(_DAYS)
    + r")\b"
    r"|\b(?P<span>next|last|this) (?P<unit>week|month|year)\b"
    r"|\bin (?P<count>a|an|one|two|three|four|five|six|\d{1,3}) (?P<units>day|week|month|year)s?\b",
    re.IGNORECASE,
)
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


def with_absolute_dates(sentence: str, said_at: datetime) -> str:
    """Replace every relative day in the sentence with a date."""
    return _RELATIVE.sub(lambda match: _date(match, said_at), sentence)


def _date(match: re.Match[str], said_at: datetime) -> str:
    if match["day"]:
        return _weekday(match["which"].lower(), _DAYS.index(match["day"].lower()), said_at)
    if match["span"]:
        step = {"next": 1, "last": -1, "this": 0}[match["span"].lower()]
        return _period(match["unit"].lower(), step, said_at)
    if match["units"]:
        count = match["count"].lower()
        number = _NUMBERS.get(count) or int(count)
        unit = match["units"].lower()
        if unit in {"day", "week"}:
            days = number * (7 if unit == "week" else 1)
            return f"on {_day(said_at + timedelta(days=days))}"
        return _period(unit, number, said_at)
    word = match.group().lower()
    return f"on {_day(said_at + timedelta(days=_NEAR_DAYS[word]))}"


def _weekday(which: str, day: int, said_at: datetime) -> str:
    ahead = (day - said_at.weekday()) % 7
    if which == "last":
        ahead -= 7
    elif which == "next" or ahead == 0:
        ahead = ahead or 7
    return f"on {_day(said_at + timedelta(days=ahead))}"


def _period(unit: str, step: int, said_at: datetime) -> str:
    if unit == "week":
        monday = said_at - timedelta(days=said_at.weekday()) + timedelta(weeks=step)
        return f"in the week of {_day(monday)}"
    if unit == "month":
        months = said_at.year * 12 + said_at.month - 1 + step
        return f"in {datetime(months // 12, months % 12 + 1, 1, tzinfo=said_at.tzinfo):%B %Y}"
    return f"in {said_at.year + step}"


def _day(at: datetime) -> str:
    return f"{at.day} {at:%B %Y}"
