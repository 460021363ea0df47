"""Words that may vary in an English statement without changing its meaning; used by `canonical`.

A missing word only costs a duplicate row; a wrong entry would lose a correction. When in doubt,
leave it out.
"""

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARTICLES = _words("a an the")
POSSESSIVES = _words("my your his her its our their")
POINTERS = _words("the this that these those") | POSSESSIVES
SUBJECTS = _words("I i you he she it we they")
PREPOSITIONS = _words(
    "about above after against around as at because before behind below beneath beside between"
    " by despite during for from if in inside into near of off on onto out outside over past"
    " since than through to toward towards under until up when while with within without"
)
MODALS = _words("will would can could may might must shall should")
NEGATIONS = _words("not never no nobody nothing none neither nor hardly barely no-longer")
COMPARISONS = _words("than more most less least better best worse worst")
# Words that are lower-cased at the start of a sentence.
OPENINGS = (
    ARTICLES
    | POSSESSIVES
    | PREPOSITIONS
    | SUBJECTS
    | _words("every each some all most many no there here this these those please")
)

# Phrases addressed to the listener that add nothing to the statement. Longer ones first.
LEAD_INS = (
    ("please", "remember", "that"),
    ("please", "note", "that"),
    ("keep", "in", "mind", "that"),
    ("just", "so", "you", "know"),
    ("by", "the", "way"),
    ("remember", "that"),
    ("note", "that"),
    ("note", ":"),
    ("fyi",),
    ("btw",),
    ("actually",),
)
FILLERS = _words("also please per")

CONTRACTIONS: Mapping[str, tuple[str, ...]] = {
    "won't": ("will", "not"),
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "shan't": ("shall", "not"),
    "dont": ("do", "not"),
    "doesnt": ("does", "not"),
    "didnt": ("did", "not"),
    "isnt": ("is", "not"),
    "arent": ("are", "not"),
    "wasnt": ("was", "not"),
    "hasnt": ("has", "not"),
    "havent": ("have", "not"),
}
CONTRACTED_ENDINGS: Mapping[str, str] = {
    "n't": "not",
    "'ll": "will",
    "'re": "are",
    "'ve": "have",
    "'m": "am",
}
# After these words, 's means "is"; after any other word it is read as a possessive.
IS_BEFORE_S = _words("he she it that there here what who where how")

# Replaced in place after articles are removed, longer phrases first. A verb is written in its base
# form and matches its present and past forms; the word marked * takes over the form.
PHRASES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("as", "well", "as"): ("and",),
    ("be", "able", "to"): ("can",),
    ("be", "unable", "to"): ("can", "not"),
    ("be", "fond", "of"): ("like*",),
    ("be", "fan", "of"): ("like*",),
    ("be", "keen", "on"): ("like*",),
    ("be", "afraid", "of"): ("fear*",),
    ("be", "scared", "of"): ("fear*",),
    ("have", "allergy", "to"): ("be*", "allergic", "to"),
    ("'s", "name", "be"): ("be*", "named"),
    ("in", "order", "to"): ("to",),
    ("with", "no"): ("without",),
    ("no", "longer"): ("no-longer",),
    ("no", "one"): ("nobody",),
    ("not", "ever"): ("never",),
    ("per", "cent"): ("percent",),
    ("have", "got"): ("have*",),
    ("at", "moment"): ("now",),
    ("at", "present"): ("now",),
    ("right", "now"): ("now",),
    ("as", "well"): (),
    ("lots", "of"): ("lot", "of"),
    ("daily",): ("every", "day"),
    ("weekly",): ("every", "week"),
    ("monthly",): ("every", "month"),
    ("yearly",): ("every", "year"),
    ("annually",): ("every", "year"),
    ("twice",): ("2", "time"),
    ("thrice",): ("3", "time"),
}

# Words that differ only in strength: interchangeable in a plain statement, but not under a negation
# or in a comparison ("does not love" does not exclude liking).
SCALES: Mapping[str, str] = {
    "love": "like",
    "enjoy": "like",
    "prefer": "like",
    "favor": "like",
    "adore": "like",
    "hate": "dislike",
    "detest": "dislike",
    "loathe": "dislike",
}
SYNONYMS: Mapping[str, str] = {
    word: group.split()[0]
    for group in (
        "live reside",
        "have own possess",
        "need require",
        "want wish",
        "buy purchase",
        "start begin commence",
        "use utilize",
        "help assist",
        "fix repair",
        "choose select",
        "get obtain receive",
        "show display",
        "allow permit",
        "finish complete",
        "speak talk",
        "every each",
        "now currently",
        "big large",
        "fast quick quickly",
        "child kid",
        "children kids",
        "mother mum mom",
        "father dad",
        "grandmother grandma",
        "grandfather grandpa",
        "film movie",
        "films movies",
        "car automobile",
        "phone telephone",
        "bicycle bike",
        "bicycles bikes",
        "tv television telly",
        "sofa couch",
        "flat apartment",
        "doctor physician",
        "photo photograph",
        "until till",
        "and &",
        "everyone everybody",
        "anyone anybody",
        "someone somebody",
        "email e-mail",
        "emails e-mails",
        "wifi wi-fi",
        "ok okay",
        "favor favour",
        "favorite favourite",
        "color colour",
        "colors colours",
        "flavor flavour",
        "neighbor neighbour",
        "neighbors neighbours",
        "behavior behaviour",
        "humor humour",
        "center centre",
        "theater theatre",
        "program programme",
        "math maths",
    )
    for word in group.split()[1:]
}
BEVERAGES = _words(
    "beer cappuccino cocoa coffee espresso juice latte lemonade milk tea water whisky wine"
)
# "A window seat" and "window seats" name the same kind, but "a friend" is one person.
PERSONS = _words("boy brother child colleague friend girl guy neighbor person sister user woman")
OBJECT_PRONOUNS = _words("me you him her it us them")
# One of these may be anywhere in a simple clause.
MOBILE_ADVERBS = _words("always normally now often rarely sometimes typically usually")

# The object of these verbs may be a clause with its own adverbs.
CLAUSE_VERBS = _words("believe feel find hear hope know promise say see tell think want")

# Verbs after which "to swim" and "swimming" mean the same; after "stop" they do not.
TAKES_EITHER = _words("like love prefer hate enjoy dislike start begin")

REGULAR_VERBS = _words(
    "add adore agree allow answer arrive ask assist attend avoid believe belong book borrow"
    " call care carry celebrate change check clean climb close code collect commence complete"
    " contain cook cost create cycle dance deliver depend deploy describe design detest develop"
    " disagree dislike display drop earn end enjoy exercise expect explain export favor favour"
    " fear finish fish fix follow garden happen hate help hike hope import include install"
    " invite jog join jump kick learn like listen live loathe look love manage marry miss move"
    " name need obtain offer open order organize owe own paint permit plan play possess practise"
    " prefer prepare produce promise purchase receive recommend rent repair report require"
    " reside save search select serve share ship shop show sign ski smoke start stay stop store"
    " study suffer support talk test train travel try turn use utilize visit wait wake walk want"
    " wash watch weigh wish work worry"
)
DOUBLING_VERBS = _words("begin drop forget get jog plan prefer run ship shop stop swim win")
# Base, past, participle.
IRREGULAR_VERBS = tuple(
    tuple(forms.split())
    for forms in [
        "become became become",
        "begin began begun",
        "bring brought brought",
        "build built built",
        "buy bought bought",
        "catch caught caught",
        "choose chose chosen",
        "come came come",
        "draw drew drawn",
        "drink drank drunk",
        "drive drove driven",
        "eat ate eaten",
        "feel felt felt",
        "find found found",
        "fly flew flown",
        "forget forgot forgotten",
        "get got gotten",
        "give gave given",
        "go went gone",
        "grow grew grown",
        "have had had",
        "hear heard heard",
        "hold held held",
        "keep kept kept",
        "know knew known",
        "lead led led",
        "leave left left",
        "lend lent lent",
        "lose lost lost",
        "make made made",
        "meet met met",
        "pay paid paid",
        "ride rode ridden",
        "run ran run",
        "say said said",
        "see saw seen",
        "sell sold sold",
        "send sent sent",
        "sing sang sung",
        "sleep slept slept",
        "speak spoke spoken",
        "spend spent spent",
        "swim swam swum",
        "take took taken",
        "teach taught taught",
        "tell told told",
        "think thought thought",
        "understand understood understood",
        "wear wore worn",
        "win won won",
        "write wrote written",
    ]
)
