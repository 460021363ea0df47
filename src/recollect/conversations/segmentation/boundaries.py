"""Where a conversation falls into stretches: pure, and online.

Each message is judged once, by what was said before it and never by what comes after. A stretch
ends *before* a message (a pause, a change of topic, a farewell that went before) or *with* one (the
other side has said goodbye too, the stretch is as long as it may be). Nothing is carried from one
stretch into the next, so it makes no difference whether messages come one by one or all at once.

How well this works, and where the numbers come from: `docs/segmentation.md`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect.core.domain import MessagePosition, SegmentReason, SegmentRules
from recollect.models.embedder import Vector

# A message is held in its stretch by the closest of the last few; what was said further back holds
# it less.
_REACH = 4
_FADING = 0.85

# What else speaks for a new topic, in the same unit as the tie that it is weighed against.
_ASKS = 0.07  # people open a topic by asking
_ANSWERS = -0.10  # what follows a question answers it, however little the words have in common
_GREETS = 0.10
_SAYS_LITTLE = -0.10  # "Wow, nice!" is close to nothing, and changes no topic

_FEW_WORDS = 4
_PARTING_WORDS = 12

_WORD = re.compile(r"\w+")
_QUESTION = re.compile("[?？؟]")


@dataclass(frozen=True, slots=True)
class SegmenterMessage:
    """A message as the segmenter hears it; without a vector it says nothing about the topic."""

    text: str
    speaker: str
    at: datetime
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """A stretch has ended: so many messages long, and why."""

    length: int
    reason: SegmentReason
    # For people: what was measured.
    note: str


Likeness = Callable[[float], float]


def segment_ends(
    heard: Sequence[SegmenterMessage], rules: SegmentRules, likeness: Likeness
) -> Iterator[SegmentEnd]:
    """The stretches that have ended, in order; what follows the last of them is still open."""
    stretch: list[_Judged] = []
    for message in heard:
        judged = _judged(message)
        if stretch and (ended := _ended_before(stretch, judged, rules, likeness)):
            yield ended
            stretch = []
        stretch.append(judged)
        if ended := _ended_with(stretch, rules):
            yield ended
            stretch = []


@dataclass(frozen=True, slots=True)
class _Judged:
    """What can be told of a message by itself."""

    heard: SegmenterMessage
    asks: bool
    greets: bool
    thanks: bool
    parts: bool
    says_little: bool

    @property
    def has_substance(self) -> bool:
        """Whether it could be what a stretch is about."""
        return not (self.says_little or self.greets or self.thanks or self.parts)


def _judged(heard: SegmenterMessage) -> _Judged:
    words = sum(1 if word.isascii() else 1 + len(word) // 6 for word in _WORD.findall(heard.text))
    asks = bool(_QUESTION.search(heard.text))
    is_short = words <= _PARTING_WORDS and not asks
    return _Judged(
        heard,
        asks=asks,
        greets=bool(_GREETING.match(heard.text)),
        thanks=is_short and bool(_THANKS.search(heard.text)),
        parts=is_short and bool(_FAREWELL.search(heard.text)),
        says_little=words < _FEW_WORDS,
    )


def _ended_before(
    stretch: Sequence[_Judged], message: _Judged, rules: SegmentRules, likeness: Likeness
) -> SegmentEnd | None:
    last = stretch[-1]
    pause = message.heard.at - last.heard.at
    if pause > rules.max_pause:
        minutes = round(pause / timedelta(minutes=1))
        return SegmentEnd(len(stretch), SegmentReason.TIME, f"{minutes} minutes of silence")
    if not any(each.has_substance for each in stretch):
        return None
    if last.parts and not (message.parts or message.thanks):
        return SegmentEnd(
            len(stretch), SegmentReason.COMPLETED, "a farewell, and then something else"
        )
    return _topic_change(stretch, message, rules, likeness)


def _topic_change(
    stretch: Sequence[_Judged], message: _Judged, rules: SegmentRules, likeness: Likeness
) -> SegmentEnd | None:
    if message.heard.vector is None or message.thanks or message.parts:
        return None
    ties = [
        likeness(float(message.heard.vector @ each.heard.vector)) * _FADING**steps
        for steps, each in enumerate(reversed(stretch[-_REACH:]))
        if each.heard.vector is not None
    ]
    if not ties:
        return None
    needed = (
        rules.min_similarity
        + _ASKS * message.asks
        + _ANSWERS * stretch[-1].asks
        + _GREETS * message.greets
        + _SAYS_LITTLE * message.says_little
    )
    if max(ties) >= needed:
        return None
    return SegmentEnd(
        len(stretch),
        SegmentReason.TOPIC,
        f"held by {max(ties):.2f} to what went before, and {needed:.2f} is needed",
    )


def _ended_with(stretch: Sequence[_Judged], rules: SegmentRules) -> SegmentEnd | None:
    if len(stretch) >= rules.max_messages:
        return SegmentEnd(len(stretch), SegmentReason.LENGTH, f"{len(stretch)} messages")
    if len(stretch) < 2 or not _is_parting(stretch[-2], stretch[-1]):
        return None
    if not any(each.has_substance for each in stretch):
        return None
    return SegmentEnd(len(stretch), SegmentReason.COMPLETED, "both sides have closed the subject")


def _is_parting(first: _Judged, second: _Judged) -> bool:
    """Whether one side takes leave, or gives thanks, and the other replies in kind."""
    if first.heard.speaker == second.heard.speaker:
        return False
    return (first.parts or first.thanks) and (second.parts or second.thanks)


def idle(last: SegmenterMessage, length: int, silence: timedelta) -> SegmentEnd:
    """The end of the open stretch when nobody has said anything for long enough."""
    if _judged(last).parts:
        return SegmentEnd(length, SegmentReason.COMPLETED, "a farewell, and then silence")
    return SegmentEnd(
        length, SegmentReason.TIME, f"{round(silence / timedelta(minutes=1))} minutes of silence"
    )


def end_after_pause(
    last: SegmenterMessage, length: int, silence: timedelta, rules: SegmentRules
) -> SegmentEnd:
    """The end of what was said before a stretch that is closed and that it is not of."""
    if silence > rules.max_pause:
        return idle(last, length, silence)
    return SegmentEnd(length, SegmentReason.LENGTH, "too long together with what follows")


def core(
    around: Sequence[MessagePosition], origin: MessagePosition, rules: SegmentRules
) -> tuple[MessagePosition, MessagePosition]:
    """Where a stretch that others have joined begins and ends.

    Given are places in it, in chat order, around that of the message which came before all others.
    Of what no pause parts from that, those are of the stretch that came first, as many as it may
    have; and what was said between these, until that is twice as much.
    """
    run = _together(around, origin, rules)
    earliest = set(sorted(place.position for place in run)[: rules.max_messages])
    held = _together([place for place in run if place.position in earliest], origin, rules)
    inside = run[run.index(held[0]) : run.index(held[-1]) + 1]
    if len(inside) >= 2 * rules.max_messages:
        inside = inside[: rules.max_messages]
    return inside[0], inside[-1]


def _together(
    places: Sequence[MessagePosition], origin: MessagePosition, rules: SegmentRules
) -> Sequence[MessagePosition]:
    """Those that no pause parts from the origin."""
    first = last = places.index(origin)
    while first > 0 and places[first].at - places[first - 1].at <= rules.max_pause:
        first -= 1
    while last < len(places) - 1 and places[last + 1].at - places[last].at <= rules.max_pause:
        last += 1
    return places[first : last + 1]


def _any_of(*phrases: str) -> str:
    return "|".join(phrases)


# As people say them in the languages we stem, most common ones only.
_GREETING = re.compile(
    r"\W*(?:"
    + _any_of(
        "hi",
        "hello",
        "hey",
        "good (?:morning|afternoon|evening|day)",
        "excuse me",
        "welcome",
        "hallo",
        "guten (?:morgen|tag|abend)",
        "bonjour",
        "salut",
        "bonsoir",
        "hola",
        "buen(?:os|as) (?:días|tardes|noches)",
        "ciao",
        "buon(?:giorno|asera)",
        "olá",
        "oi",
        "bom dia",
        "boa (?:tarde|noite)",
        "goedemorgen",
        "goedendag",
        "hej",
        "привет",
        "здравствуйте",
    )
    + r")\b",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"\b(?:"
    + _any_of(
        "thanks?",
        "thank you",
        "thx",
        "you(?:'|’)?(?: a)?re (?:very |most )?welcome",
        "no problem",
        "my pleasure",
        "don(?:'|’)t mention it",
        "glad (?:to|i could|i can) help",
        "anytime",
        "danke",
        "gern geschehen",
        "bitte sehr",
        "merci",
        "de rien",
        "gracias",
        "de nada",
        "grazie",
        "prego",
        "obrigad[oa]",
        "bedankt",
        "graag gedaan",
        "tack",
        "спасибо",
        "пожалуйста",
    )
    + r")\b",
    re.IGNORECASE,
)
_FAREWELL = re.compile(
    r"\b(?:"
    + _any_of(
        "(?:good ?|good-)?bye(?:-?bye)?",
        "see (?:you|ya)(?: (?:later|soon|then|there|around|tomorrow|next \\w+))?(?=\\W*$)",
        "take care(?=\\W*$)",
        "talk (?:to you )?(?:later|soon)",
        "good ?night",
        "have a (?:nice|good|great|lovely|wonderful|pleasant|safe) \\w+",
        "tschüss",
        "auf wiedersehen",
        "bis (?:bald|später|morgen|dann)",
        "au revoir",
        "à (?:bientôt|demain|plus)",
        "adiós",
        "hasta (?:luego|mañana|pronto)",
        "arrivederci",
        "a (?:presto|domani)",
        "tchau",
        "até (?:logo|amanhã|mais)",
        "tot ziens",
        "hej då",
        "до свидания",
        "пока(?=\\W*$)",
    )
    + r")\b",
    re.IGNORECASE,
)
