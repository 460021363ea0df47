"""The local distiller: what people state outright, as sentences that stand alone. No model. Pure.

It takes first-person statements of lasting things (preferences, facts about oneself, decisions,
plans, corrections), turns them into the third person with absolute dates, and is silent otherwise.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect.engine.extract import main_sentences

# What no one sentence of a memory needs to exceed.
LONGEST = 2_000
_LONGEST_SENTENCE = 400
_MOST_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement to remember, the words it rests on, and the slot it fills if it has one."""

    content: str
    category: str
    quote: str
    slot: str | None = None
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    category: str
    pattern: re.Pattern[str]
    slot: str | None = None


def _rule(category: str, pattern: str, slot: str | None = None) -> _Rule:
    return _Rule(category, re.compile(pattern, re.IGNORECASE), slot)


# The first that fits a sentence decides; what fits none is not learnt.
_RULES = [
    _rule(
        "identity",
        r"\bmy (?:full |first |last )?name(?: is|'s)\b|\bI(?:'m| am) called\b|\bcall me\b",
        "name",
    ),
    _rule(
        "identity",
        r"\bI(?:'m| am) \d{1,3}(?: years old\b|$|[,.])",
        "age",
    ),
    _rule(
        "identity",
        r"\bmy birthday(?: is|'s)\b|\bI was born (?:on|in)\b",
        "birthday",
    ),
    _rule(
        "identity",
        r"\bmy pronouns are\b",
        "pronouns",
    ),
    _rule(
        "fact",
        r"\bI (?:now )?live in\b|\bI(?:'m| am) (?:based|living) in\b|"
        r"\bI (?:have )?(?:just )?moved to\b",
        "home",
    ),
    _rule(
        "fact",
        r"\bI (?:now )?work (?:at|for|as)\b|\bI(?:'m| am) working (?:at|for|as)\b|"
        r"\bmy (?:job|employer|company|occupation) is\b",
        "work",
    ),
    _rule(
        "fact",
        r"\bI(?:'m| am) (?:allergic|intolerant) to\b|\bI(?:'m| am) (?:a )?(?:vegan|"
        r"vegetarian|diabetic|pescatarian|left-handed)\b|\bI don't eat\b|\bI can't eat\b",
    ),
    _rule(
        "preference",
        r"\bI (?:\w+ly |really |do |also |always )?(?:prefer|love|like|enjoy|hate|"
        r"dislike|adore|can't stand|don't like|do not like|would rather)\b|\bmy favou?rite\b|"
        r"\bI(?:'m| am) (?:not )?(?:a (?:big |huge )?fan of|fond of|keen on|into)\b",
    ),
    _rule(
        "instruction",
        r"^(?:please |from now on,? |in future,? )*(?:always|never) \w+|\bfrom now on\b|"
        r"\bI (?:want|need|would like|'d like) you to (?:always|never)\b",
    ),
    _rule(
        "decision",
        r"\b(?:I|we)(?:'ve| have)? (?:finally |just )?(?:decided|chosen|agreed|"
        r"settled on|opted|picked|committed)\b|\b(?:I|we)(?:'ll| will) go with\b|"
        r"\blet's go with\b",
    ),
    _rule(
        "plan",
        r"\b(?:I|we)(?:'m|'re| am| are) (?:going to|planning|hoping to|about to|"
        r"moving|travell?ing|flying|starting|meeting|getting married)\b|\b(?:I|"
        r"we) (?:plan|intend|aim|hope) to\b|\bmy (?:goal|plan|aim|target|dream|"
        r"deadline)(?: is|'s)\b|\b(?:the|our) deadline (?:is|has)\b",
    ),
    _rule(
        "fact",
        r"\b(?:the|our|my) (?:\w+ ){0,3}(?:deadline|meeting|appointment|launch|"
        r"review|flight|exam|interview|wedding|budget|password manager|stack|database|"
        r"team|address|phone number|email)(?: is| are| has| will| meets| costs|"
        r"'s)\b",
    ),
    _rule(
        "fact",
        r"\bmy (?:\w+ ){0,2}(?:wife|husband|partner|girlfriend|boyfriend|son|daughter|"
        r"child|kids?|children|mother|mom|mum|father|dad|sister|brother|dog|cat|"
        r"pet|boss|manager|friend|colleague|team|doctor|car|house|apartment|school|"
        r"university|salary|income|rent|loan|debt|hobby|health)s?\b(?:,? [^,.]{1,40},)?(?: is|"
        r" are| was| were| has| have| works?| lives?| likes?| loves?| said| just|"
        r"'s)\b",
    ),
    _rule(
        "fact",
        r"\bI (?:have|own|got|adopted|bought|drive|play|speak|study|studied|graduated|"
        r"manage|run|teach|use|suffer|take|practi[sc]e|collect|volunteer|belong|"
        r"work(?:ed)?|started|joined|quit|used to|grew up|was diagnosed|married)\b|"
        r"\bI(?:'ve| have) been \w+ing\b|\bI(?:'ve| have) (?:got|two|three|four|"
        r"five|\d+)\b",
    ),
    _rule(
        "fact",
        r"\bI(?:'m| am) (?:an?|the|from|married|engaged|single|divorced|retired|"
        r"pregnant|studying|learning|training|currently|responsible)\b",
    ),
]

# Questions, requests, guesses, quotations of others and small talk state nothing.
_SILENT = re.compile(
    r"""\?\s*$
    | ^(?:if|suppose|imagine|assume|what|when|where|who|why|how|can|could|would|should|do|does|did
        |is|are|will|hi|hello|hey|thanks|thank\ you|ok|okay|yes|no|sure|great|translate|summari[sz]e
        |write|rewrite|explain|give|tell|list|show|act\ as|pretend|you\ are)\b(?!\ of\ course)
    | \bI(?:'d|\ would)?\ (?:think|guess|suppose|wonder|doubt|believe|feel\ like|was\ wondering)\b
    | \bI(?:'m|\ am)\ (?:not\ sure|sorry|wondering|curious|asking|glad
        |trying\ to\ (?:figure|understand)|happy\ to|ready|looking\ for(?:ward)?|excited|here
        |fine|good|okay|back|done)\b
    | \bI\ (?:like|love)\ (?:that|this|it|your|the\ (?:idea|sound)|how)\b
    | \bI\ (?:have|had|got)\ (?:a\ (?:question|problem|quick)|no\ idea|to\ (?:go|say|admit))\b
    | \bI\ use\ (?:this|that|it)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HAS_WORDS = re.compile(r"\w+\W+\w+\W+\w+")
_OPENING = re.compile(
    r"^(?:(?:well|oh|so|and|but|also|actually|by the way|btw|fyi|no|yes|yeah|sorry|hi|hello|hey|"
    r"thanks|thank you|okay|ok|sure|great|for your information|just so you know|"
    r"please (?:remember|note)(?: that)?|remember(?: that)?|note that|correction)\b[\s,.!:;-]*)+",
    re.IGNORECASE,
)
# Two statements joined by "and" are two statements.
_SENTENCES = re.compile(
    r"(?<=[.!?])\s+(?=[A-Z\"“'(])|\n+|(?<=[.!?])\s*$|,? and (?=(?:I|my)\b)|; (?=(?:I|my)\b)",
    re.IGNORECASE,
)
_PLEASE = re.compile(r",? please(?=[.!]?$)", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>]|\d+[.)])\s+|^#+\s|\*\*")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`]*`", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)


def distilled(text: str, said_at: datetime, *, speaker: str = "The user") -> list[Candidate]:
    """What the text states outright, in order, each once."""
    found: list[Candidate] = []
    seen: set[str] = set()
    for quote in _statements(text):
        rule = next((rule for rule in _RULES if rule.pattern.search(quote)), None)
        if rule is None or _SILENT.search(quote):
            continue
        content = _third_person(_dated(quote, said_at), speaker)
        if content.casefold() in seen or not _stands_alone(content):
            continue
        seen.add(content.casefold())
        found.append(Candidate(content, rule.category, quote, rule.slot, _brief(content)))
        if len(found) == _MOST_CANDIDATES:
            break
    return found


# Of what a model made of much, the few sentences that say most.
_MOST_CONCLUSIONS = 5
_FEWEST_WORDS = 6
_OF_THE_MODEL = re.compile(r"\b(?:I|I'm|I'll|I've|me|my|you|your|let's)\b", re.IGNORECASE)


def concluded(text: str) -> list[Candidate]:
    """The outcome of a turn in the model's own main sentences, those that stand alone."""
    return [
        Candidate(sentence[:LONGEST], "fact", sentence, None, _brief(sentence))
        for sentence in main_sentences(text, _MOST_CONCLUSIONS)
        if len(sentence.split()) >= _FEWEST_WORDS
        and _stands_alone(sentence)
        and not _OF_THE_MODEL.search(sentence)
    ]


def _statements(text: str) -> Iterator[str]:
    prose = _QUOTED_LINE.sub("", _CODE.sub(" ", text))
    for part in _SENTENCES.split(prose):
        sentence = " ".join(_LIST_MARK.sub("", part).split())
        sentence = _OPENING.sub("", sentence).strip(' "“”')
        if len(sentence) <= _LONGEST_SENTENCE and _HAS_WORDS.search(sentence):
            yield sentence


_STARTS_LOOSE = re.compile(r"^(?:it|this|that|these|those|they|he|she|there)\b", re.IGNORECASE)


def _stands_alone(sentence: str) -> bool:
    """Whether it can be understood without what came before it."""
    return not _STARTS_LOOSE.match(sentence)


def _brief(content: str) -> str:
    return content if len(content) <= 80 else content[:79].rsplit(" ", 1)[0] + "…"


# In this order; each as the user would say it, and as somebody else would.
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
    (r"\bmyself\b", "themselves"),
    (r"\bmine\b", "theirs"),
    (r"\bmy\b", "{who}'s"),
    (r"\bme\b", "{who}"),
]
_ADVERB = r" (?:\w+ly|also|just|still|now|always|never|usually|really|often)"
_VERB = re.compile(
    r"\bI((?: (?:\w+ly|also|just|still|now|always|never|usually|really|often))*) (\w+)\b"
)
# After these a verb keeps its form: the past, and what helps another verb.
_UNCHANGED = {
    "can", "could", "will", "would", "should", "must", "may", "might", "had", "did", "was", "went",
    "got", "grew", "bought", "took", "made", "met", "ran", "wrote", "drove", "spoke", "taught",
    "quit", "said", "told", "saw", "left", "felt", "began", "came", "chose", "built", "won", "lost",
    "can't", "couldn't", "won't", "wouldn't", "didn't", "cannot",
}  # fmt: skip


# What somebody says for several, or asks for, is told in their words.
_THEIR_WORDS = re.compile(r"\bI\b|\b(?:my|me|mine)\b", re.IGNORECASE)


def _third_person(sentence: str, speaker: str) -> str:
    if not _THEIR_WORDS.search(sentence):
        told = sentence[:1].upper() + sentence[1:].rstrip(".!")
        return f"{speaker} said: “{told}.”"
    possessive = f"{speaker}'s"
    for said, told in _PERSONS:
        sentence = re.sub(said, told.format(who=speaker), sentence, flags=re.IGNORECASE)
    sentence = _VERB.sub(lambda match: f"{speaker}{match[1]} {_conjugated(match[2])}", sentence)
    sentence = re.sub(r"\bI\b", speaker, sentence)
    # Inside a sentence it is no name.
    for name in (possessive, speaker):
        lowered = name[0].lower() + name[1:] if name.startswith("The ") else name
        sentence = re.sub(rf"(?<=[\w,;:]\s){re.escape(name)}", lowered, sentence)
    sentence = sentence[:1].upper() + sentence[1:]
    return sentence.rstrip(".!") + "."


def _conjugated(verb: str) -> str:
    lowered = verb.lower()
    if lowered in _UNCHANGED or lowered.endswith(("ed", "n't")):
        return verb
    if lowered == "have":
        return "has"
    if lowered.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    if lowered.endswith("y") and lowered[-2:-1] not in set("aeiou"):
        return verb[:-1] + "ies"
    return verb + "s"


_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_NEAR = {"today": 0, "tonight": 0, "this morning": 0, "this evening": 0, "tomorrow": 1,
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


def _dated(sentence: str, said_at: datetime) -> str:
    """The sentence with every relative day said as a date."""
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
    return f"on {_day(said_at + timedelta(days=_NEAR[word]))}"


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
