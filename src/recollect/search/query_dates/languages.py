"""Translate dates of other languages into the English that `dates.py` reads. Pure.

Covers relative dates and weekdays in German, French, Spanish, Italian, Portuguese, Dutch, Russian,
Chinese, Japanese and Korean, and numeric dates of the last three. The language of the question is
not detected first: each expression is a date in any language. The exception is French "hier",
which means "here" in German and Dutch.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from recollect.keywords.stop_words import STOP_WORDS
from recollect.keywords.tokenizer import language_of

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight")


def _to_english(table: Mapping[str, str]) -> dict[str, str]:
    """Return the English word for each foreign word; `table` maps the other way."""
    return {word: english for english, words in table.items() for word in words.split()}


def _any(words: Sequence[str] | Mapping[str, str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_NEAR = {
    "antes de ayer": "the day before yesterday",
    "l'altro ieri": "the day before yesterday",
    **_to_english(
        {
            "today": "heute aujourd'hui hoy oggi hoje vandaag сегодня",
            "yesterday": "gestern ayer anoche ieri ontem gisteren вчера",
            "the day before yesterday": (
                "vorgestern avant-hier anteayer avantieri anteontem eergisteren позавчера"
            ),
        }
    ),
}
_UNITS = {
    "fin de semana": "weekend",
    "fim de semana": "weekend",
    "fine settimana": "weekend",
    **_to_english(
        {
            "day": (
                "tag tage tagen jour jours día días dia dias giorno giorni dag dagen день дня дней"
            ),
            "week": (
                "woche wochen semaine semaines semana semanas settimana settimane week weken неделю"
                " недели неделе неделя недель"
            ),
            "month": (
                "monat monate monaten mois mes meses mês mese mesi maand maanden месяц месяца"
                " месяцев месяце"
            ),
            "year": (
                "jahr jahre jahren an ans année années año años anno anni ano anos jaar jaren год"
                " года году лет"
            ),
            "weekend": "wochenende week-end weekend выходные выходных",
        }
    ),
}
_DAYS_OF_THE_WEEK = _to_english(
    dict(
        zip(
            WEEKDAYS,
            (
                "montag lundi lunes lunedì segunda segunda-feira maandag понедельник понедельника",
                "dienstag mardi martes martedì terça terça-feira dinsdag вторник вторника",
                "mittwoch mercredi miércoles mercoledì quarta quarta-feira woensdag среду среды",
                "donnerstag jeudi jueves giovedì quinta quinta-feira donderdag четверг четверга",
                "freitag vendredi viernes venerdì sexta sexta-feira vrijdag пятницу пятницы",
                "samstag sonnabend samedi sábado sabato zaterdag субботу субботы",
                "sonntag dimanche domingo domenica zondag воскресенье воскресенья",
            ),
            strict=True,
        )
    )
)
_NUMBERS = _to_english(
    dict(
        zip(
            _COUNTS,
            (
                "ein eine einem einer einen un une una um uma een один одну",
                "zwei deux dos due dois duas twee два две",
                "drei trois tres tre três drie три paar quelques unos unas qualche alguns algumas",
                "vier quatre cuatro quattro quatro четыре",
                "fünf cinq cinco cinque vijf пять",
                "sechs seis sei zes шесть",
                "sieben sept siete sette sete zeven семь",
                "acht huit ocho otto oito восемь",
            ),
            strict=True,
        )
    )
)
_UNIT = rf"(?P<unit>{_any(_UNITS)})"
_COUNT = rf"(?P<count>{_any([*_NUMBERS, *_COUNTS])}|\d{{1,3}})"

# "Last week", also with the word for "last" after the unit.
_LAST = re.compile(
    rf"\b(?:(?:(?:letzte|vergangene|vorige)[nmrs]?|vorig|afgelopen|scors[oa]|прошл(?:ой|ую|ом|ые|ых"
    rf"|ый))\ {_UNIT}|(?P<past>{_any(_UNITS)})\ (?:derni(?:er|ère)|passée?|pasad[oa]|scors[oa]"
    rf"|passad[oa]))\b"
)
_THIS = re.compile(
    rf"\b(?:diese[nmrs]?|ce|cet|cette|n?est[ae]|quest[ao]|deze|dit|эт(?:ой|у|от|ом))\ {_UNIT}\b"
)
_AGO = re.compile(
    rf"\b(?:(?:vor|il\ y\ a|hace|há)\ {_COUNT}\ {_UNIT}|(?P<count2>{_any(_NUMBERS)}|\d{{1,3}})\ "
    rf"(?P<unit2>{_any(_UNITS)})\ (?:fa|atrás|geleden|назад)|(?P<unit3>неделю|месяц|год)\ назад)\b"
)
_PAST = re.compile(
    rf"\b(?:(?:letzten|vergangenen|últim[oa]s|ultim[ie]|laatste|afgelopen|последни[ех])\ {_COUNT}"
    rf"|(?P<count2>{_any(_NUMBERS)}|\d{{1,3}})\ derni(?:ers|ères))\ {_UNIT}\b"
)
# French and Italian use no preposition before a weekday. Words such as "since" stay before it.
_WEEKDAY = re.compile(
    rf"\b(?:(?P<opening>seit|bis|vor|nach|depuis|avant|après|desde|hasta|dal|sinds|с|до)(?:\ el)?\ "
    rf"|(?:am|letzten|vergangenen|diesen|el|este|op|afgelopen|на|в|во|na|no)\ "
    rf"|(?=\w+d[iì]\b|dimanche|sabato|domenica))(?P<day>{_any(_DAYS_OF_THE_WEEK)})\b(?!\ gras\b)"
    rf"(?:\ (?:derni(?:er|ère)|pasado|scors[oa]|passad[oa])\b)?"
)
_OPEN_ENDED = _to_english(
    {
        "since": "seit depuis desde dal sinds с",
        "until": "bis hasta до",
        "before": "vor avant",
        "after": "nach après",
    }
)
_FRENCH_YESTERDAY = re.compile(r"\bhier\b")
_NEARBY = re.compile(rf"\b(?:{_any(_NEAR)})\b")

_Translate = Callable[[re.Match[str]], str]


def _weekday(found: re.Match[str]) -> str:
    return f"{_OPEN_ENDED.get(found['opening'], 'on')} {_DAYS_OF_THE_WEEK[found['day']]}"


def _counted(found: re.Match[str]) -> str:
    number = found["count"] or found["count2"]
    return _NUMBERS.get(number, number)


def _ago(found: re.Match[str]) -> str:
    unit = _UNITS[found["unit"] or found["unit2"] or found["unit3"]]
    return f"one {unit} ago" if found["unit3"] else f"{_counted(found)} {unit}s ago"


_SPACED: Sequence[tuple[re.Pattern[str], _Translate]] = (
    (_PAST, lambda found: f"last {_counted(found)} {_UNITS[found['unit']]}s"),
    (_AGO, _ago),
    (_LAST, lambda found: f"last {_UNITS[found['unit'] or found['past']]}"),
    (_THIS, lambda found: f"this {_UNITS[found['unit']]}"),
    (_WEEKDAY, _weekday),
    (_NEARBY, lambda found: _NEAR[found[0]]),
)

# Scripts without spaces, or with particles after words: the patterns cannot require word
# boundaries.
_EASTERN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
_EASTERN_COUNTS = dict(zip("一二三四五六七八两兩", (*_COUNTS, "two", "two"), strict=True))
_EASTERN_UNITS = {
    "day": "天|日|일",
    "week": "个?星期|個星期|周|週間|週|주",
    "month": "个月|個月|[かカヶヵケ]月|개월|달",
    "year": "年|년",
}
_EASTERN_UNIT = "|".join(f"(?P<{unit}>{names})" for unit, names in _EASTERN_UNITS.items())
_HOW_MANY = rf"(?P<count>\d{{1,3}}|[{''.join(_EASTERN_COUNTS)}])\s?(?:{_EASTERN_UNIT})"
_EASTERN_WEEKDAYS = ("月월一", "火화二", "水수三", "木목四", "金금五", "土토六", "日일天")
_WEEKDAY_SIGN = {
    sign: day for signs, day in zip(_EASTERN_WEEKDAYS, WEEKDAYS, strict=True) for sign in signs
}


def _how_many(found: re.Match[str]) -> str:
    unit = next(unit for unit in _EASTERN_UNITS if found[unit])
    return f"{_EASTERN_COUNTS.get(found['count'], found['count'])} {unit}s"


def _month(number: str) -> str:
    return _MONTHS[int(number) - 1] if 1 <= int(number) <= 12 else ""


def _date(found: re.Match[str]) -> str:
    return f" {'-'.join(filter(None, found.groups()))} "


def _yearly(found: re.Match[str]) -> str:
    return f" {found['day']}th {_month(found['month'])} "


def _ago_unspaced(found: re.Match[str]) -> str:
    return f" {_how_many(found)} ago "


def _past_unspaced(found: re.Match[str]) -> str:
    return f" last {_how_many(found)} "


def _within_month(found: re.Match[str]) -> str:
    return f" in {_month(found['month'])} "


def _weekday_unspaced(found: re.Match[str]) -> str:
    return f" on {_WEEKDAY_SIGN[next(filter(None, found.groups()))]} "


_WEEK_SIGNS = "(?:个|個)?(?:周|週|星期|礼拜)"
# The replacements have spaces around them, because the rest of the text has none.
_UNSPACED: Sequence[tuple[re.Pattern[str], _Translate | str]] = tuple(
    (re.compile(pattern), translation)
    for pattern, translation in (
        (r"((?:19|20)\d\d)\s?[年년]\s?(\d\d?)\s?[月월](?:\s?(\d\d?)\s?[日号號일])?", _date),
        (r"(?<!\d)(?P<month>\d\d?)\s?[月월]\s?(?P<day>\d\d?)\s?[日号號일]", _yearly),
        (r"((?:19|20)\d\d)\s?[年년]", r" in \1 "),
        (r"(?<!\d)(?P<month>\d\d?)\s?[月월]", _within_month),
        (rf"{_HOW_MANY}\s?(?:之?前|以前|전)", _ago_unspaced),
        (rf"(?:最近|过去|過去|지난|최근)\s?{_HOW_MANY}", _past_unspaced),
        (rf"[上本这這]?{_WEEK_SIGNS}([一二三四五六日天])", _weekday_unspaced),
        (r"([月火水木金土日])曜日?|(?:지난\s?)?([월화수목금토일])요일", _weekday_unspaced),
        ("一昨日|おととい|前天|그저께|그제", " the day before yesterday "),
        ("昨天|昨日|きのう|어제", " yesterday "),
        ("今天|今日|きょう|오늘", " today "),
        (r"上周末|上週末|先週末|지난\s?주말", " last weekend "),
        (rf"上{_WEEK_SIGNS}|先週|지난\s?주", " last week "),
        (rf"[本这這]{_WEEK_SIGNS}|今週|이번\s?주", " this week "),
        (r"上(?:个|個)?月|先月|지난\s?달", " last month "),
        (r"本月|[这這](?:个|個)?月|今月|이번\s?달", " this month "),
        (r"去年|昨年|작년|지난\s?해", " last year "),
        ("今年|올해", " this year "),
    )
)


def dates_in_english(question: str) -> str:
    """Translate the dates in a lower-case question into English and keep the rest."""
    question = question.replace("\u2019", "'")
    for pattern, translate in _SPACED:
        question = pattern.sub(translate, question)
    if _FRENCH_YESTERDAY.search(question) and language_of(question) == "french":
        question = _FRENCH_YESTERDAY.sub("yesterday", question)
    if _EASTERN.search(question):
        for pattern, translation in _UNSPACED:
            question = pattern.sub(translation, question)
    return question


# A question with one of `_REQUESTS`, and otherwise only with `_FILLERS` and stop words, asks for
# everything of a time: "What did we talk about?". "What do I have?" does not: it asks about plans,
# which may have been mentioned at any time.
_REQUESTS = {
    "english": (
        "chat chats chatted conversation conversations did discuss discussed done everything"
        " happened memories mention mentioned noted notes recap remember remembered said saved"
        " spoke summarise summarize summary talk talked talking tell told"
    ),
    "german": (
        "alles besprochen erinnere erinnerungen erwähnt erzählt geredet gesagt gesprochen"
        " gespeichert getan gemacht los notiert passiert unterhalten zusammenfassung"
    ),
    "french": (
        "conversation conversations dit discuté fait mentionné noté parlé passé raconté rappelle"
        " résumé souvenirs tout"
    ),
    "spanish": (
        "conversación dicho dije dijimos dijiste hablado hablamos hablé hecho hice hicimos"
        " mencioné pasado pasó recuerdos resumen todo"
    ),
    "italian": (
        "conversazione detto dicevamo discusso fatto parlato raccontato ricordi riassunto successo"
        " tutto"
    ),
    "portuguese": (
        "aconteceu conversa conversamos disse dissemos falado falamos falei feito fiz fizemos"
        " lembranças resumo tudo"
    ),
    "dutch": (
        "alles besproken gedaan gebeurd gepraat gesproken gezegd herinneringen genoteerd gesprek"
        " samenvatting verteld"
    ),
    "russian": (
        "говорил говорила говорили обсуждали обсуждал обсуждала произошло рассказал рассказала"
        " сказал сказала сказали случилось делал делала делали всё"
    ),
}
_FILLERS = {
    "english": (
        "all anything earlier else give list me note please recall s say show things topic topics"
        " up us ve"
    ),
    "german": "bitte denn eigentlich gab hatte hatten hast habt mal waren worüber wovon zeig",
    "french": "a ai as avais avait avions avez avons c ce d été hier m montre n peux quels s t",
    "spanish": "cosas estuvimos fue he hemos hubo me nos qué sobre",
    "italian": "abbiamo avevamo c cose è stato fu me mostra quali quello s",
    "portuguese": "coisas houve mostre nós quais sobre",
    "dutch": "hadden hebt over waarover waren we",
    "russian": "мне нам наши покажи расскажи чём чем",
}
_ANY_WORD = {
    language: frozenset((*requests.split(), *_FILLERS[language].split())) | STOP_WORDS[language]
    for language, requests in _REQUESTS.items()
}
_REQUEST_WORDS = {language: frozenset(words.split()) for language, words in _REQUESTS.items()}
_REST = re.compile(r"\w+")
_UNSPACED_REQUEST = re.compile(
    "说|說|谈|談|聊|讨论|討論|做|发生|發生|告诉|告訴|記|记|話|言|した|起き|あった|教え|まとめ|얘기|이야기|말|했|있었"
)
_UNSPACED_ANY = re.compile(
    rf"(?:{_UNSPACED_REQUEST.pattern}|我们|我們|咱们|我|你|什么|什麼|甚么|哪些|了|过|過|的|在|都|有|些|事情|事|内容|吗|嗎|呢"
    r"|和|一起|请|請|们|論|论|私たち|私|何|なに|を|が|は|に|の|で|と|し|ました|ま|した|た|か|について|って|っ|て|ください"
    r"|会話|全部|すべて|무엇|뭐|뭘|무슨|우리|나|내가|제가|제|를|을|는|은|가|에|서|나요|어|지|습니까|요|까|대해|라고|\s)+"
)


def asks_for_anything(rest: str, language: str) -> bool:
    """Whether a question, without its dates in `rest`, asks for everything of that time."""
    words = _REST.findall(rest)
    if not words:
        return True
    if _EASTERN.search(rest):
        text = "".join(words)
        return bool(_UNSPACED_ANY.fullmatch(text) and _UNSPACED_REQUEST.search(text))
    if language not in _ANY_WORD:
        return False
    return _ANY_WORD[language].issuperset(words) and not _REQUEST_WORDS[language].isdisjoint(words)
