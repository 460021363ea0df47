"""Which sentences state something worth keeping, and what kind of thing. English. Pure.

First come statements of which there is one at a time (a name, a home), then kinds that are known by
their verbs, at last whatever else people say of themselves and of what is theirs. Before all of
them stands what states nothing: questions, requests, guesses, small talk, and talk about the talk.
"""

import re
from dataclasses import dataclass

_I = r"\b(?:I|we)"
_HAVE = rf"{_I}(?:'ve|\ have|\ had|'d)"
_AM = rf"{_I}(?:'m|'re|\ am|\ are|\ was|\ were)"
# What may stand between a subject and its verb.
_ADVERBS = (
    r"(?:\ (?:\w+ly|also|just|still|now|always|never|usually|often|already|almost|not|even))*"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a sentence says when it fits: its category, and the slot it fills if it has one."""

    category: str
    pattern: re.Pattern[str]
    slot: str | None = None


def _rule(category: str, pattern: str, slot: str | None = None) -> Rule:
    return Rule(category, re.compile(pattern, re.IGNORECASE | re.VERBOSE), slot)


# Said outright: these count even in a sentence that speaks to the assistant.
_PLAIN = [
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
        "instruction",
        r"^(?:please\ |from\ now\ on,?\ |in\ future,?\ )*(?:always|never)\ \w+|\bfrom\ now\ on\b"
        r"|\bI\ (?:want|need|would\ like|'d\ like)\ you\ to\ (?:always|never)\b",
    ),
]

_KNOWN = [
    _rule(
        "preference",
        rf"{_I}(?:\ (?:\w+ly|do|also|always|would(?!\ like)))*\ (?:prefer|love|like|enjoy|hate"
        r"|dislike|adore|can't\ stand|don't\ like|do\ not\ like|would\ rather)\b|\bmy\ favou?rite\b"
        rf"|{_AM}\ (?:not\ )?(?:a\ (?:big\ |huge\ )?fan\ of|fond\ of|keen\ on|into|tired\ of)\b"
        r"|\b(?:is|are)\ (?:a\ must|non-negotiable|a\ deal-?breaker|off\ the\ table)\b",
    ),
    _rule(
        "decision",
        rf"{_I}(?:'ve|\ have)?{_ADVERBS}\ (?:decided|chosen|chose|choose|agreed|agree\ to|settled"
        r"|opted|picked|pick|committed|confirmed|approved|cancell?ed|postponed|switched|swapped)\b"
        rf"|{_I}(?:'ll|\ will)\ (?:go\ with|stick\ (?:to|with)|take\ the|use|skip|drop|keep)\b"
        r"|^(?:ok(?:ay)?,?\ |so,?\ |then,?\ )?let's\ (?:go\ with|use|stick\ (?:to|with)|switch|swap"
        r"|keep\ (?!the\ momentum|going|moving|it|this)|make\ it\ (?!happen|work|quick)"
        r"|schedule|postpone|skip|drop|prioriti[sz]e|focus\ on|start\ with|call\ it)\b"
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

# Where a clause of its own begins: "the mail I got" says nothing of me.
_CLAUSE = (
    r"(?:^|[,;:–—(-]\ |\b(?:and|but|so|because|since|although|though|while|now|then|today|currently"
    r"|also|that)\ )"
)
_SUBJECT = r"(?:[\w'’*/-]+,?\ ){0,5}?[\w'’*/-]+"
# Anything else that somebody says of themselves, of those with them, or of what is theirs.
_OTHERWISE = [
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
        r"|interview|wedding|budget|stack|database|team|address|phone\ number|email)"
        r"(?:\ is|\ are|\ has|\ will|\ meets|\ costs|'s)\b",
    ),
]

# Questions, requests, guesses and quotations state nothing.
_SILENT = re.compile(
    r"""\?["'”)\s]*$
    | ^(?:(?:now|then|next|also|and|so|first)\ )*(?:if|suppose|imagine|assume|what|when|where|who
        |whose|which|why|how|can|could|would|should|do|does|did|is|are|will|translate
        |summari[sz]e|write|rewrite|explain|give|tell|list|show|act\ as|pretend|you|create
        |generate|make|add|change|fix|help|describe|draft|compare|provide|find|convert|improve
        |include|analy[sz]e|answer|ask|review|reply|respond|try|update|continue|repeat|put|don't
        |do\ not|stop|no\ need|no\ more|let\ me|remove|refer|format|revise|rephrase|expand
        |get\ me|bring|send|remind|lets\ take|please\ (?!remember|note)\w+)\b(?!\ of\ course)
    | \b(?:can|could|should|do|does|did|would|am|are|is|may|might|must|what|how|like)\ (?:I|we)\b
    | \bI(?:'d|\ would)?(?:\ \w+ly|\ also|\ just)*\ (?:think|guess|suppose|wonder|doubt|believe
        |assume|imagine|bet|feel\ like|was\ (?:wondering|thinking\ (?:if|of\ asking)))\b
    | \bI\ (?:like|love)\ (?:that|this|it|your|the\ (?:idea|sound|direction)|how|where)\b
    | \b(?:I|we)\ (?:have|had|got|have\ got)\ (?:an?\ (?:question|quick|error|request|task\ for)
        |no\ idea|to\ (?:go|say|admit)|the\ following|another)\b
    | \bI\ use\ (?:this|that|it)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Talk about the talk: greetings, thanks, understanding, promises to be back, complaints.
_TALK = re.compile(
    r"""\bI(?:\ (?:really|also|just|do|can|already|totally|fully))*\ (?:see|hear|understand
        |get\ (?:it|that)|got\ (?:it|that)|agree|appreciate|apologi[sz]e|mean|meant|said|say|told
        |tell
        |asked|ask|mentioned|repeat|insist|promise|swear|know\ (?:that|it|this|what|how|why|I|we|the
        |right|but)|beg|thank|hope\ (?:this|that|it|so)|trust|explicitly|specifically|misspoke
        |misunderstood|can\ (?:see|work\ with))\b
    | \b(?:I'm|I\ am|we're|we\ are)(?:\ \w+ly|\ all|\ also|\ just|\ now|\ so|\ very
        |\ still)*\ (?:not\ sure|unsure|sorry|wondering|curious|asking|saying|talking|telling
        |listening|glad|happy|ready(?!\ to\ (?:start|begin|build|launch|commit|set\ up|move))
        |pleased|impressed|excited|interested\ in\ (?:hearing|knowing)|here|fine|good|okay|back
        |done|all\ ears|all\ set|set|on\ it|on\ board|in|with\ (?:it|this|that)|aligned
        |trying\ to\ (?:figure|understand|say)|looking\ forward|following|eager)\b
    | \b(?:I'll|I\ will|we'll|we\ will)(?:\ also|\ just|\ definitely|\ then)*\ (?:let|hit
        |get\ back|be\ (?:back|waiting|sure|here|in\ touch)|tell|wait|see|look|check\ (?:it|this
        |that|them|back)|review|try\ (?:it|this|that)|give\ (?:it|this|that)|take\ (?:it|a\ look
        |this)|keep\ (?:it|this|that|an\ eye)|do\ (?:it|that|this)|go\ (?:over|through)|talk
        |update|report|come\ back)\b
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
# What follows is material to work on, or a part to play: nobody's own words.
_MATERIAL = re.compile(
    r"""^(?:(?:can|could|would)\ you\ (?:please\ )?|please\ |now,?\ )?(?:translate|summari[sz]e
        |rewrite|rephrase|paraphrase|proofread|expand|shorten|edit\ (?:this|the)
        |correct\ (?:this|the)|improve\ (?:this|the)|reply|respond\ to
        |write\ an?\ (?:\w+\ )?(?:email|reply|response
        |letter)|continue\ the\ story|role-?play|act\ as|pretend|imagine|suppose|(?:you\ are
        |you're)\ (?:an?|the)|ignore)\b
    | \b(?:the\ following|below\ is|here\ is\ the|this\ is\ the)\ (?:\w+\ ){0,3}(?:text|email
        |article|code|content|essay|story|script|paragraph|message|transcript|passage|prompt
        |data)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_TO_YOU = re.compile(r"\b(?:you|your|yours|you're|you've|you'll|you'd|yourself)\b", re.IGNORECASE)


def is_material(sentence: str) -> bool:
    """Whether what follows this sentence is no longer said in the speaker's own name."""
    return bool(_MATERIAL.search(sentence))


def rule_for(sentence: str) -> Rule | None:
    """The rule by which a sentence states something; None when it states nothing to keep."""
    if _SILENT.search(sentence):
        return None
    plain = _first(_PLAIN, sentence)
    if plain:
        return plain
    if _TALK.search(sentence) or _TO_YOU.search(sentence):
        return None
    return _first(_KNOWN, sentence) or _first(_OTHERWISE, sentence)


def _first(rules: list[Rule], sentence: str) -> Rule | None:
    return next((rule for rule in rules if rule.pattern.search(sentence)), None)
