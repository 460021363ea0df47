"""Decide which sentences state something worth remembering, and in which category. English. Pure.

Sentences that state nothing are dropped first: questions, requests, guesses, small talk, and talk
about the conversation. Then the rules apply in order: explicit statements (a name, a home),
statements known by their verb, and any other statement about the speaker or what they own.
"""

import re
from dataclasses import dataclass

_I = r"\b(?:I|we)"
_HAVE = rf"{_I}(?:'ve|\ have|\ had|'d)"
_AM = rf"{_I}(?:'m|'re|\ am|\ are|\ was|\ were)"
# Adverbs that may come between a subject and its verb.
_ADVERBS = (
    r"(?:\ (?:\w+ly|also|just|still|now|always|never|usually|often|already|almost|not|even))*"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """The category of sentences that match the pattern, and the slot they fill, if any.

    A slot holds one value at a time: a newer statement supersedes the older one.
    """

    category: str
    pattern: re.Pattern[str]
    slot: str | None = None


def _rule(category: str, pattern: str, slot: str | None = None) -> Rule:
    return Rule(category, re.compile(pattern, re.IGNORECASE | re.VERBOSE), slot)


# Explicit statements. They count even in a sentence that addresses the assistant.
_EXPLICIT = [
    _rule(
        "identity",
        r"\bmy\ (?:full\ |first\ |last\ )?name(?:\ is|'s)\b|\bI(?:'m|\ am)\ called\b|\bcall\ me\b",
        "name",
    ),
    _rule("identity", r"\bI(?:'m|\ am)\ \d{1,3}(?:\ years\ old\b|$|[,.])", "age"),
    _rule("identity", r"\bmy\ birthday(?:\ is|'s)\b|\bI\ was\ born\ (?:on|in)\b", "birthday"),
    _rule("identity", r"\bmy\ pronouns\ are\b", "pronouns"),
    _rule(
        "fact",
        r"\bI\ (?:now\ )?live\ in\b|\bI(?:'m|\ am)\ (?:based|living)\ in\b"
        r"|\bI\ (?:have\ )?(?:just\ )?moved\ to\b",
        "home",
    ),
    _rule(
        "fact",
        r"\bI\ (?:now\ )?work\ (?:at|for|as)\b|\bI(?:'m|\ am)\ working\ (?:at|for|as)\b"
        r"|\bmy\ (?:job|employer|company|occupation)\ is\b",
        "work",
    ),
    _rule(
        "fact",
        r"\bI(?:'m|\ am)\ (?:allergic|intolerant)\ to\b|\bI(?:'m|\ am)\ (?:a\ )?(?:vegan|vegetarian"
        r"|diabetic|pescatarian|left-handed)\b|\bI\ (?:don't|can't)\ eat\b",
    ),
    _rule(
        "fact",
        r"\bI(?:'m|\ am)\ (?:married|single|divorced|engaged|widowed|pregnant|retired|unemployed"
        r"|self-employed|deaf|blind|disabled|gay|lesbian|bisexual|transgender)\b"
        r"|\bI(?:'m|\ am)\ from\ (?-i:[A-Z])|^I(?:'m|\ am)\ (?-i:[A-Z]\w+)[.!]?$"
        r"|\bI\ (?:have|suffer\ from)\ (?:type\ [12]\ )?(?:diabetes|asthma|epilepsy|migraines?"
        r"|adhd|autism|coeliac|celiac|arthritis|dyslexia|insomnia|anxiety|depression)\b"
        r"|\bI\ have\ (?:an?|one|two|three|four|five|\d+|no)\ (?:\w+\ )?(?:kids?|child|children"
        r"|sons?|daughters?|brothers?|sisters?|siblings?|twins|dogs?|cats?|pets?|horses?|wife|husband)\b"
        r"|\bI(?:'ve)?\ (?:just\ )?got\ (?:married|engaged|divorced|fired|hired|promoted|laid\ off"
        r"|an?\ (?:new\ )?(?:job|dog|puppy|cat|kitten|car|house|flat|promotion|degree|visa))\b",
    ),
    _rule(
        "instruction",
        r"^(?:please\ |from\ now\ on,?\ |in\ future,?\ )*(?:always|never)\ (?!\w+(?:ly|ed)\b"
        r"|got|had|been|was|mind)\w+|\bfrom\ now\ on\b"
        r"|\bI\ (?:want|need|would\ like|'d\ like)\ you\ to\ (?:always|never)\b",
    ),
]

_BY_VERB = [
    _rule(
        "preference",
        rf"{_I}(?:\ (?:\w+ly|do|also|always|would(?!\ like)))*\ (?:prefer|love|like|enjoy|hate"
        r"|dislike|adore|can't\ stand|don't\ like|do\ not\ like|would\ rather)\b|\bmy\ favou?rite\b"
        rf"|{_AM}\ (?:not\ )?(?:a\ (?:big\ |huge\ )?fan\ of|fond\ of|keen\ on|into|tired\ of"
        r"|afraid\ of|scared\ of|terrified\ of|allergic\ to|passionate\ about|obsessed\ with"
        r"|interested\ in)\b"
        r"|\b(?:is|are)\ (?:a\ must|non-negotiable|a\ deal-?breaker|off\ the\ table)\b",
    ),
    _rule(
        "decision",
        rf"{_I}(?:'ve|\ have)?{_ADVERBS}\ (?:decided|chosen|chose|choose|agreed|agree\ to|settled"
        r"|opted|picked|pick|committed|confirmed|approved|cancell?ed|postponed|switched|swapped)\b"
        rf"|{_I}(?:'ll|\ will)\ (?:go\ with|stick\ (?:to|with)|take\ the|use|skip|drop|keep)\b"
        r"|^(?:ok(?:ay)?,?\ |so,?\ |then,?\ |for\ [^,]{2,60},\ )?let's\ (?:definitely\ |just\ "
        r"|actually\ )*"
        r"(?:go\ with|go\ for|use|stick\ (?:to|with)|switch|swap|lock\ in|aim\ for|try\ for|book"
        r"|set\ the"
        r"|move\ (?:it\ )?to|push\ (?:it\ )?(?:to|back)|reschedule|ditch|hold\ off\ on"
        r"|put\ .{2,40}\ on\ hold"
        r"|keep\ (?!the\ momentum|this\ momentum|going|moving|it|this)|make\ it\ (?!happen|work"
        r"|quick)"
        r"|schedule|postpone|skip|drop|prioriti[sz]e|focus\ on|start\ with|call\ it)\b"
        r"|(?:^|,\ |\bso\ )[\w.'&\"* -]{2,40}\ it\ is[.!]?$|^for\ [^,]{2,60},\ it\ (?:has"
        r"|needs)\ to\ be\b"
        r"|\bconsider\ .{2,60}\b(?:confirmed|done|approved|locked|agreed|underway)\b"
        r"|^(?:the\ |our\ )?[\w.'\"-]+(?:\ [\w.'\"-]+){0,6}\ (?:is\ |are\ )?(?:confirmed|approved"
        r"|finali[sz]ed|cancell?ed|postponed|locked\ in|on\ hold|paused|agreed)\b",
    ),
    _rule(
        "goal",
        rf"{_I}(?:\ \w+ly|\ also|\ just|\ still)*\ (?:want|need|would\ like|wish|hope|aim"
        rf"|have)\ to\b|{_I}'d\ (?:like|love|prefer)\ to\b|{_AM}\ (?:trying|hoping|aiming|looking"
        r"|keen|determined)\ (?:to|for|at)\b"
        r"|\bmy\ (?:goal|aim|target|dream|priority|focus|objective)\b"
        rf"|{_I}(?:\ \w+ly|\ also|\ just)*\ (?:want|need)\b",
    ),
    _rule(
        "plan",
        rf"{_AM}{_ADVERBS}\ (?:going\ to|planning|about\ to|moving|travell?ing|flying|starting"
        rf"|meeting|getting\ married)\b|{_I}\ (?:plan|intend)\ to\b|{_I}(?:'ll|\ will|\ won't)\b"
        r"|\b(?:my|our|the)\ (?:plan|deadline)(?:\ is|\ has|'s)\b",
    ),
]

# The start of a clause: "the mail I got" states nothing about the speaker.
_CLAUSE = (
    r"(?:^|[,;:–—(-]\ |\b(?:and|but|so|because|since|although|though|while|now|then|today|currently"
    r"|also|that)\ )"
)
_SUBJECT = r"(?:[\w'’*/-]+,?\ ){0,5}?[\w'’*/-]+"
# Any other statement about the speaker, their people or their possessions.
_OTHER = [
    _rule(
        "fact",
        rf"{_CLAUSE}(?:{_AM}|{_HAVE}|{_I}(?!\ (?:can(?!'t|not)|could(?!n't)|should|may|might"
        rf"|would|see)\b)(?:'d)?){_ADVERBS}\ \w+",
    ),
    _rule(
        "fact",
        rf"\b(?:my|our)\ (?!guys?\b|friend,|man\b|dear|bad\b|god\b|goodness|apolog|question|point"
        rf"|understanding|guess){_SUBJECT}\ (?:is|are|was|were|has|have|had|will|would|can|can't"
        r"|cannot|must|isn't|aren't|wasn't|doesn't|don't|didn't|hasn't|just|\w+[^s\W]s|\w+ed)\b"
        r"|\b(?:my|our)\ \w+'s\b|\b(?:in|on|at|for|with|of|to|by)\ (?:my|our)\ \w+",
    ),
    _rule(
        "fact",
        r"\b(?:the|our|my)\ (?:\w+\ ){0,3}(?:deadline|meeting|appointment|launch|flight|exam"
        r"|interview|wedding|budget|stack|database|team|address|phone\ number|email|total|rent|test"
        r"|course|trip|party|operation|surgery)"
        r"(?:\ [^.,;]{1,60},?)?(?:\ is|\ are|\ has|\ will|\ meets|\ costs|'s)\b",
    ),
    # "The wife", "the boss", "the dog": people and pets that belong to the speaker.
    _rule(
        "fact",
        r"^(?:the\ )?(?:wife|missus|husband|kids|boss|doc|doctor|landlord|baby|dog|cat|family|boys"
        r"|girls)(?:'s|'re|\ (?:is|are|was|were|says?|said|wants?|has|have|had|needs?|will|can't"
        r"|don't"
        r"|doesn't|got|told|thinks?|just))\b",
    ),
    # Diary style without a subject: "Hurt my back on Monday", "Feeling better after the flu".
    _rule(
        "fact",
        r"^(?:(?:just|still|also|already|only|finally)\ )*(?:feeling|woke\ up|got\ (?!it|that|you"
        r"|to\b)"
        r"|had|been|finished|completed|started|submitted|booked|paid|bought|moved|signed|hurt|broke"
        r"|lost|done|tried|went|quit|joined|switched|decided|planning|thinking\ of|hoping\ to"
        r"|trying\ to"
        r"|working\ on|struggling|training|studying|learning|can't|couldn't|wanted\ to|allergic"
        r"|based\ in|born)\b",
    ),
]

# Words that carry no content: grammar, light verbs, and words common to any conversation.
_FILLER_WORDS = frozenset(
    """
    a about absolutely actually after again all almost already also although always am an and
    another any anything are around as at back basically be because been before being best better
    bit both but by can can't cannot come coming could couldn't day definitely did didn't do does
    doesn't doing don't done down each else even ever every everything exactly feel feeling few
    for from fully get gets getting go goes going gone gonna good got gotta great guy had
    happy has have having he her here him his honestly how i i'd i'll i'm i've if in into is it
    it's its just keep know last later let let's like little long lot lots made make makes making
    man many mate may me mean might mine moment more most move much must my myself need needs never
    next no not nothing now of off ok okay on once one ones only onto or other our ours out over
    own part place point pretty proper properly put quite ready real really right said same say
    see she should so some something soon start started still stuff such sure take takes tell than
    that that's the their them then there these they thing things think this those though through
    till time to today together told too took totally try trying under until up us
    usually very was way we we'd we'll we're we've well went were what when where
    which while who whole why will with won't would wouldn't yeah yes you you're your
    """.split()  # noqa: SIM905 - readable as words
)
_TOKEN = re.compile(r"[\w']+")
# A lasting statement (what a person is, habitually does, wants, or has a date for) needs only two
# content words. A passing state or activity needs three.
_LASTING = re.compile(
    r"\b(?:I'm|I\ am|we're|we\ are)\ (?:an?|the|from|in|on|learning|studying|training|writing"
    r"|building|working|reading|raising|renovating|teaching|living|dating|expecting)\b"
    r"|^(?:I|we)\ (?!have|had|got|need|want|can\b|could|will|am|are|was|were|went|did|do\b)\w+\b"
    r"|\b(?:I|we)(?:\ \w+ly|\ just|\ also)*\ (?:need|want|can't|cannot|don't)\ (?!to\b)\w+"
    r"|\bmy\ (?:\w+\ ){1,3}(?:is|are)\ (?!now|still|just|so)",
    re.IGNORECASE | re.VERBOSE,
)
# A plan for the same day is over before it could be recalled.
_WITHIN_THE_DAY = re.compile(
    r"\b(?:now|right\ away|straight\ away|immediately|tonight|today|asap|this\ (?:morning|afternoon"
    r"|evening|arvo)|in\ a\ (?:minute|moment|bit|sec|second))\b",
    re.IGNORECASE | re.VERBOSE,
)
_HAS_DATE = re.compile(
    r"\btomorrow\b|\byesterday\b|\b(?:next|last)\ \w+|\b\w+day\b|\d", re.IGNORECASE | re.VERBOSE
)
# A plan that depends on something else is not decided yet.
_CONDITIONAL = re.compile(
    r"^(?:once|when|until|unless|as\ soon\ as|the\ moment)\b|\bonce\ (?:I|we|they|it)",
    re.IGNORECASE | re.VERBOSE,
)
_MIN_WORDS = 3
_MIN_WORDS_LASTING = 2


def _says_enough(sentence: str, rule: Rule) -> bool:
    """Whether a statement has enough content: "I'm on it now" has none."""
    if rule.category == "preference":
        return True
    if rule.category in {"plan", "goal"} and _WITHIN_THE_DAY.search(sentence):
        return False
    if rule.category in {"plan", "decision"} and _CONDITIONAL.search(sentence):
        return False
    content_words = {
        word for word in map(str.lower, _TOKEN.findall(sentence)) if word not in _FILLER_WORDS
    }
    if rule.category == "decision":
        return bool(content_words)
    is_lasting = rule.category == "goal" or _LASTING.search(sentence) or _HAS_DATE.search(sentence)
    return len(content_words) >= (_MIN_WORDS_LASTING if is_lasting else _MIN_WORDS)


# Questions, requests, guesses and quotations state nothing.
_STATES_NOTHING = re.compile(
    r"""\?["'”)\s]*$
    | ^(?:(?:now|then|next|also|and|so|first)\ )*(?:if|suppose|imagine|assume|what|when|where|who
        |whose|which|why|how|can(?!'t)|could(?!n't)|would|should|do|does|did|is|are|will|translate
        |summari[sz]e|write|rewrite|explain|give|tell|list|show|act\ as|pretend|you|create
        |generate|make|add|change|fix|help|describe|draft|compare|provide|find|convert|improve
        |include|analy[sz]e|answer|ask|review|reply|respond|try|update|continue|repeat|put|don't
        |do\ not|stop|no\ need|no\ more|let\ me|remove|refer|format|revise|rephrase|expand
        |get|bring|send|remind|lets\ take|implement|identify|point|see|grab|hit|look|check|use
        |work|be|follow|conduct|figure|name|choose|select|define|assuming|glad|stoked|here\ (?:is
        |are)|please\ (?!remember|note)\w+)\b
        (?!\ of\ course)
    | ^(?:I|we)(?:'d|\ would)\ (?!like|love|prefer|rather)
    | \b(?:is|are|was|called|named|titled|as|the|of|my|our|an?)\s*[.,:;]*$
    | ^\d+\ (?-i:[A-Z])
    | ^(?:(?:this|our|the|that)\ (?:chat|conversation|discussion|talk)|no|good\ to|looking\ forward
        |come\ on|reckon|hopefully)\b
    | \b(?:sound|look|seem)s?\ like\b
    | ^let's\ (?:see|get|go\b(?!\ (?:with|for))|do\ (?:it|this)|continue|talk|hear|dive
        |make\ (?:it|this
        |that)\ happen|keep\ (?:the|this|it|going|moving))
    | \b(?:can|could|should|do|does|did|would|am|are|is|may|might|must|what|how|like)\ (?:I|we)\b
    | \bI(?:'d|\ would)?(?:\ \w+ly|\ also|\ just)*\ (?:think|thought|reckon|reckoned|guess|suppose
        |wonder|doubt|believe
        |assume|imagine|bet|feel\ like|was\ (?:wondering|thinking\ (?:if|of\ asking)))\b
    | \bI\ (?:like|love)\ (?:that|this|it|your|the\ (?:idea|sound|direction)|how|where)\b
    | \b(?:I|we)\ (?:have|had|got|have\ got)\ (?:an?\ (?:question|quick|error|request|task\ for)
        |no\ idea|to\ (?:go|say|admit)|the\ following|another)\b
    | \bI\ use\ (?:this|that|it)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Talk about the conversation: greetings, thanks, agreement, promises to return, complaints.
_SMALL_TALK = re.compile(
    r"""\bI(?:\ (?:really|also|just|do|can|already|totally|fully))*\ (?:see|hear|heard|understand
        |get\ (?:it|that|the)|got\ (?:it|that)|agree|appreciate|apologi[sz]e|mean|meant|said|say
        |told
        |tell
        |asked|ask|mentioned|repeat|insist|promise|swear|know\ (?:that|it|this|what|how|why|I|we|the
        |right|but)|beg|thank|hope\ (?:this|that|it|so)|trust|explicitly|specifically|misspoke
        |misunderstood|can\ (?:see|work\ with))\b
    | \b(?:I'm|I\ am|we're|we\ are)(?:\ \w+ly|\ all|\ also|\ just|\ now|\ so|\ very
        |\ still)*\ (?:not\ sure|unsure|sorry|wondering|curious|asking|saying|talking|telling
        |listening|glad|happy|ready(?!\ to\ (?:start|begin|build|launch|commit|set\ up))
        |pleased|impressed|excited|interested\ in\ (?:hearing|knowing)|here|fine|good|okay|back
        |done|all\ ears|all\ set|set|on\ it|on\ board|in|with\ (?:it|this|that)|aligned
        |trying\ to\ (?:figure|understand|say)|looking\ forward|following|eager|off|heading|waiting
        |standing\ by|coming|sending|leaving|not\ (?:going\ anywhere|leaving|here|repeating|closing
        |talking|asking|sitting|gonna|going\ to)|always\ ready|on\ (?:the\ same|track|top\ of
        |standby)
        |going\ in\ circles|gonna\ (?:head|hit|grab|go|get)
        |keen\ to\ (?:see|hear|know|get|start)|going\ to\ (?:hit|do|try|check
        |look))\b
    | \b(?:I|we)\ (?:don't|do\ not)\ have\ (?:the\ |any\ |all\ )?(?:time|day|patience)\b
    | \bwast(?:e|ing)\ (?:of\ )?(?:my|our|any)?\ ?time\b
    | (?:^|[,;]\ |\b(?:and|but|so)\ )(?:I|we)(?:'ve|\ have)?(?:\ \w+ly|\ already
        |\ just)*\ (?:gone\ through
        |looked\ (?:at|over)|been\ looking\ at|talked|spoke|spoken|discussed|covered|went\ over)\b
    | \b(?:I'll|I\ will|we'll|we\ will)(?:\ also|\ just|\ definitely|\ then)*\ (?:let|hit
        |get\ back|be\ (?:back|waiting|sure|here|in\ touch)|tell|wait|see|look|check\ (?:it|this
        |that|them|back)|review|try\ (?:it|this|that)|give\ (?:it|this|that)|take\ (?:it|a\ look
        |this)|keep\ (?:it|this|that|an\ eye)|do\ (?:it|that|this)|go\ (?:over|through)|talk
        |update|report|come\ back|provide|input|send|share|paste|refer|message|continue)\b
    | \b(?:I|we)(?:'d)?(?:\ \w+ly|\ also|\ just|\ would)*\ (?:need|want|like|expect
        |would\ like)\ (?:it|this|that|them|these|those|to\ (?:see|know|hear|understand|ask
        |make\ sure|be\ (?:sure|clear))|an?\ (?:answer|summary|list|draft|example|code|script
        |clear|detailed|new\ one|table|function)|the\ (?:answer|code|output|full|exact|list|draft
        |result|results|same|next|following|details)|more\ (?:details?|info|information
        |examples?)|some\ (?:help|advice|ideas|suggestions|info)|help|results|options|actionable
        |details)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The text that follows is material to work on or a role to play, not the speaker's own statement.
_MATERIAL = re.compile(
    r"""^(?:(?:can|could|would)\ you\ (?:please\ )?|please\ |now,?\ )?(?:translate|summari[sz]e
        |rewrite|rephrase|paraphrase|proofread|expand|shorten|edit\ (?:this|the)
        |correct\ (?:this|the)|improve\ (?:this|the)|reply|respond\ to
        |(?:write|create|draft|generate|make)\ (?:me\ |us\ )?an?\ (?:[\w-]+,?\ ){0,5}?(?:e-?mail
        |reply
        |response|letter|post|paragraph|blog|article|essay|story|script|description|tagline|bio
        |speech
        |poem|song|tweet|caption|slide)|continue\ the\ story|role-?play|act\ as|pretend|imagine
        |suppose|assume|assuming|(?:you\ are
        |you're)\ (?:an?|the)|ignore)\b
    | \b(?:the\ following|below\ is|here\ is\ the|this\ is\ the)\ (?:\w+\ ){0,3}(?:text|email
        |article|code|content|essay|story|script|paragraph|message|transcript|passage|prompt
        |data|interview)\b
    | \bI\ want\ you\ to\ act\ as\b | ^[\w.]+(?:\ [\w.]+){0,2}\s+\d{1,2}:\d{2}(?::\d{2})?$
    | ^(?:interviewer|interviewee|speaker\ \d+|narrator)\b.{0,40}:""",
    re.IGNORECASE | re.VERBOSE,
)
_ADDRESSES_ASSISTANT = re.compile(
    r"\b(?:you|your|yours|you're|you've|you'll|you'd|yourself)\b", re.IGNORECASE
)


def is_material(sentence: str) -> bool:
    """Whether the text after this sentence is material, not the speaker's own statement."""
    return bool(_MATERIAL.search(sentence))


def rule_for(sentence: str) -> Rule | None:
    """Return the rule that a sentence matches; None if it states nothing worth remembering."""
    if _STATES_NOTHING.search(sentence):
        return None
    explicit = _first_match(_EXPLICIT, sentence)
    if explicit:
        return explicit
    if _SMALL_TALK.search(sentence) or _ADDRESSES_ASSISTANT.search(sentence):
        return None
    found = _first_match(_BY_VERB, sentence) or _first_match(_OTHER, sentence)
    return found if found and _says_enough(sentence, found) else None


def _first_match(rules: list[Rule], sentence: str) -> Rule | None:
    return next((rule for rule in rules if rule.pattern.search(sentence)), None)
