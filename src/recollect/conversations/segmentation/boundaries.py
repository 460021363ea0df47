"""Divide a conversation into segments. Pure and incremental.

Each message is judged once, only by the messages before it. A segment ends *before* a message (a
pause, a change of topic, a farewell before it) or *with* one (the other side has said goodbye too,
or the segment is full). No state carries over between segments, so it makes no difference whether
messages arrive one by one or all at once.

`docs/segmentation.md` has the quality and the origin of the numbers.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect.core.domain import MessagePosition, SegmentReason, SegmentRules
from recollect.models.embedder import Vector

# A message belongs to the segment if it is similar to one of the last few messages; the similarity
# to earlier ones counts less.
_COMPARED_MESSAGES = 4
_FADE = 0.85

# Other signs change the similarity that is required to stay in the segment.
_ASKS = 0.07  # new topics often begin with a question
_ANSWERS = -0.10  # an answer belongs to its question, even if their words differ
_GREETS = 0.10
_SAYS_LITTLE = -0.10  # "Wow, nice!" resembles no message, but changes no topic

_FEW_WORDS = 4
_MAX_GOODBYE_WORDS = 12

_WORD = re.compile(r"\w+")
_QUESTION = re.compile("[?？؟]")


@dataclass(frozen=True, slots=True)
class SegmenterMessage:
    """A message to segment; without a vector it cannot change the topic."""

    text: str
    speaker: str
    at: datetime
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The end of a segment: its length and the reason."""

    length: int
    reason: SegmentReason
    # The measurement behind the decision, for display.
    note: str


Likeness = Callable[[float], float]


def segment_ends(
    messages: Sequence[SegmenterMessage], rules: SegmentRules, likeness: Likeness
) -> Iterator[SegmentEnd]:
    """Yield the ends of finished segments, in order; messages after the last one are open."""
    segment: list[_MessageTraits] = []
    for message in messages:
        traits = _traits_of(message)
        if segment and (ended := _end_before(segment, traits, rules, likeness)):
            yield ended
            segment = []
        segment.append(traits)
        if ended := _end_with(segment, rules):
            yield ended
            segment = []


@dataclass(frozen=True, slots=True)
class _MessageTraits:
    """A message with the properties that depend on it alone."""

    message: SegmenterMessage
    asks: bool
    greets: bool
    thanks: bool
    says_goodbye: bool
    says_little: bool

    @property
    def has_substance(self) -> bool:
        """Whether the message can be the subject of a segment."""
        return not (self.says_little or self.greets or self.thanks or self.says_goodbye)


def _traits_of(message: SegmenterMessage) -> _MessageTraits:
    words = sum(1 if word.isascii() else 1 + len(word) // 6 for word in _WORD.findall(message.text))
    asks = bool(_QUESTION.search(message.text))
    is_short = words <= _MAX_GOODBYE_WORDS and not asks
    return _MessageTraits(
        message,
        asks=asks,
        greets=bool(_GREETING.match(message.text)),
        thanks=is_short and bool(_THANKS.search(message.text)),
        says_goodbye=is_short and bool(_FAREWELL.search(message.text)),
        says_little=words < _FEW_WORDS,
    )


def _end_before(
    segment: Sequence[_MessageTraits],
    message: _MessageTraits,
    rules: SegmentRules,
    likeness: Likeness,
) -> SegmentEnd | None:
    last = segment[-1]
    pause = message.message.at - last.message.at
    if pause > rules.max_pause:
        minutes = round(pause / timedelta(minutes=1))
        return SegmentEnd(len(segment), SegmentReason.TIME, f"{minutes} minutes of silence")
    if not any(each.has_substance for each in segment):
        return None
    if last.says_goodbye and not (message.says_goodbye or message.thanks):
        return SegmentEnd(len(segment), SegmentReason.COMPLETED, "a farewell, then another subject")
    return _topic_change(segment, message, rules, likeness)


def _topic_change(
    segment: Sequence[_MessageTraits],
    message: _MessageTraits,
    rules: SegmentRules,
    likeness: Likeness,
) -> SegmentEnd | None:
    if message.message.vector is None or message.thanks or message.says_goodbye:
        return None
    similarities = [
        likeness(float(message.message.vector @ each.message.vector)) * _FADE**steps
        for steps, each in enumerate(reversed(segment[-_COMPARED_MESSAGES:]))
        if each.message.vector is not None
    ]
    if not similarities:
        return None
    needed = (
        rules.min_similarity
        + _ASKS * message.asks
        + _ANSWERS * segment[-1].asks
        + _GREETS * message.greets
        + _SAYS_LITTLE * message.says_little
    )
    if max(similarities) >= needed:
        return None
    return SegmentEnd(
        len(segment),
        SegmentReason.TOPIC,
        f"similarity {max(similarities):.2f} to the messages before; {needed:.2f} is needed",
    )


def _end_with(segment: Sequence[_MessageTraits], rules: SegmentRules) -> SegmentEnd | None:
    if len(segment) >= rules.max_messages:
        return SegmentEnd(len(segment), SegmentReason.LENGTH, f"{len(segment)} messages")
    if len(segment) < 2 or not _is_goodbye(segment[-2], segment[-1]):
        return None
    if not any(each.has_substance for each in segment):
        return None
    return SegmentEnd(len(segment), SegmentReason.COMPLETED, "both sides said goodbye or thanks")


def _is_goodbye(first: _MessageTraits, second: _MessageTraits) -> bool:
    """Whether one side says goodbye or thanks, and the other replies in kind."""
    if first.message.speaker == second.message.speaker:
        return False
    return (first.says_goodbye or first.thanks) and (second.says_goodbye or second.thanks)


def idle(last: SegmenterMessage, length: int, silence: timedelta) -> SegmentEnd:
    """Return the end of an open segment after a long silence."""
    if _traits_of(last).says_goodbye:
        return SegmentEnd(length, SegmentReason.COMPLETED, "a farewell, then silence")
    return SegmentEnd(
        length, SegmentReason.TIME, f"{round(silence / timedelta(minutes=1))} minutes of silence"
    )


def end_after_pause(
    last: SegmenterMessage, length: int, silence: timedelta, rules: SegmentRules
) -> SegmentEnd:
    """Return the end of late messages that lie directly before another closed segment."""
    if silence > rules.max_pause:
        return idle(last, length, silence)
    return SegmentEnd(length, SegmentReason.LENGTH, "too long to join the next segment")


def core(
    around: Sequence[MessagePosition], origin: MessagePosition, rules: SegmentRules
) -> tuple[MessagePosition, MessagePosition]:
    """Return the first and last position of a segment, without late messages of other segments.

    `around` are the positions of its messages in order; `origin` is the one that was received
    first. Only messages that no pause separates from the origin are considered. Of these, the ones
    received first belong to the segment, up to its maximal length, and so does everything between
    them, up to twice that length.
    """
    run = _without_pause(around, origin, rules)
    earliest = set(sorted(each.position for each in run)[: rules.max_messages])
    first_run = _without_pause([each for each in run if each.position in earliest], origin, rules)
    inside = run[run.index(first_run[0]) : run.index(first_run[-1]) + 1]
    if len(inside) >= 2 * rules.max_messages:
        inside = inside[: rules.max_messages]
    return inside[0], inside[-1]


def _without_pause(
    positions: Sequence[MessagePosition], origin: MessagePosition, rules: SegmentRules
) -> Sequence[MessagePosition]:
    """Return the positions that no pause separates from the origin."""
    first = last = positions.index(origin)
    while first > 0 and positions[first].at - positions[first - 1].at <= rules.max_pause:
        first -= 1
    while (
        last < len(positions) - 1 and positions[last + 1].at - positions[last].at <= rules.max_pause
    ):
        last += 1
    return positions[first : last + 1]


def _any_of(*phrases: str) -> str:
    return "|".join(phrases)


# The most common phrases, in the languages we stem.
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
