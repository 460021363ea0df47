"""Function words of the languages we stem: used to detect a language and to shorten queries."""

from collections.abc import Mapping

# Articles, pronouns, prepositions, auxiliaries: words that every text of the language contains and
# that carry no meaning in a query. Negations are left out on purpose: they are common, but
# meaningful in a query. English is first, so it wins a tie.
STOP_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": (
            "a about am an and any are as at be been but by can could did do does for from had has"
            " have he her hers him his how i if in into is it its me my of on or our she should so"
            " than that the their them then there these they this those to was we were what when"
            " where which who whom whose why will with would you your"
        ),
        "german": (
            "aber als am an auch auf aus bei bin bis da das dass dein dem den der des die dir du"
            " ein eine einem einen einer eines er es für hat habe haben ich ihr im in ist ja kann"
            " man mein meine mich mir mit nach noch nur oder sein seine sich sie sind so über um"
            " und uns unser von vor war warum was wer wie wann wir wird wo wurde zu zum zur"
        ),
        "french": (
            "à au aux avec ce ces cette chez comme dans de des du elle en es est et eux il ils j je"
            " l la le les leur lui ma mais me mes moi mon notre nous on où ou par pour qu que quel"
            " quelle qui quoi sa se ses son sont sur ta te tes toi ton tu un une vos votre vous y"
        ),
        "spanish": (
            "a al como con cuando cuándo de del desde donde dónde el él ella en entre era es esta"
            " está este ha han la las le les lo los mi mis muy o para pero por que qué quien quién"
            " se ser su sus también te tiene tu un una unos y ya yo"
        ),
        "italian": (
            "a ad ai al alla anche che chi ci come con cosa da dal dei del della delle di dove è e"
            " ed era gli ha hai ho i il in io la le lei lo loro lui ma mi mia mio nel nella o per"
            " perché più quando questa questo si sono su sua suo ti tra tu un una uno"
        ),
        "portuguese": (
            "a ao aos as até com como da das de dela dele do dos e é ela ele em entre era essa esse"
            " esta está eu foi ha há isso isto já la lhe mais mas me meu minha muito na nas no nos"
            " o onde os ou para pela pelo por quando que quem se ser seu sua são também tem um uma"
        ),
        "dutch": (
            "aan als bij dat de der deze die dit door een en er haar had heb hebben heeft het"
            " hij hoe hun ik in is je kan maar me met mij mijn naar nog of om onze ook op te"
            " tot u uit van voor waar wanneer want was wat we wel werd wie wij wordt ze zich zij"
            " zijn zou"
        ),
        "swedish": (
            "alla att av de dem den denna det detta dig din där efter eller en ett för från ha hade"
            " han har hennes hon hos hur i jag kan man med men mig min mitt när och om oss på sin"
            " sitt ska som till upp ur var vad vem vi vid är åt över"
        ),
        "norwegian": (
            "alle at av bare ble da de dem den denne det dette du eller en er et etter for fra ha"
            " hadde han hans har hun hva hvem hvor hvordan i jeg kan man med meg men mitt mot når"
            " og også om opp oss på seg sin skal som til under ut ved vi vil være"
        ),
        "danish": (
            "af alle at blev da de dem den denne der det dette dig din du efter eller en er et for"
            " fra ha havde han hans har hendes hun hvad hvem hvor hvordan i jeg kan man med meget"
            " men mig min mit mod når og også om op os på sig sin skal som til ud under var ved vi"
            " vil være"
        ),
        "finnish": (
            "että häneen hän hänen he heidän hänelle ja jo joka jos kanssa koska kuin kuka kun me"
            " meidän mikä millä minkä minun minä missä mitä mutta mun myös niin nyt oli olen olla"
            " olivat on ovat sekä se sen siinä sinun sinä sitä tai tämä tämän tässä vain vai"
        ),
        "polish": (
            "ale a być był była bo co czy dla do gdzie go i ich jak jako jest jej jego już kiedy"
            " która które który kto ma mam mi mnie mój na o od oraz po pod przez przy są się ta tak"
            " te tego ten to tylko w we więc z za ze że"
        ),
        "czech": (
            "a ale ani až by být byl byla co do i jak jako je jeho její jsem jsme jsou já k kde kdo"
            " kdy která které který má mám mi můj na nebo o od po pod pro při s se si sem ta tak"
            " také ten to tu u už v ve z za ze že"
        ),
        "romanian": (
            "a al ale am ar are asta au avea ca că când care ce cine cu cum de din dar după el ea"
            " ei este eu fi fost în îi îmi își la lui mai mea meu ne o pe pentru prin sa să sale"
            " sau se sunt și un una unde"
        ),
        "hungarian": (
            "a az azt be csak de egy el én és ez ezt fel ha hogy hol igen is itt jó ki kell le lesz"
            " már még meg mert mi miért mikor mint most ő ők ott pedig s soha szerint te ti ugye"
            " vagy van vannak volt"
        ),
        "russian": (
            "а без был была были было в вам вас во вот все вы где да для до его ее её если есть еще"
            " же за и из или им их к как когда ко которая который кто ли меня мне мой моя мы на нам"
            " нас но о об он она они оно от по под при с со так также там то только тот ты у уже"
            " что чтобы это этот эта я"
        ),
        "turkish": (
            "ama ancak bana beni benim bir bu çok da daha de diye en gibi hem her için ile ise"
            " kadar ki m\u0131 mi mu mü nas\u0131l ne neden nerede o olan olarak onu onun sen"
            " şey şu ve veya ya"
        ),
    }.items()
}

# Further words that identify a language.
_NEGATIONS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": "no not never don't doesn't didn't isn't aren't can't won't without like likes",
        "german": "nein nicht kein keine keinen nie ohne",
        "french": "non ne n pas jamais sans",
        "spanish": "no nunca sin",
        "italian": "no non mai senza",
        "portuguese": "não nunca sem",
        "dutch": "nee niet geen nooit zonder",
        "swedish": "nej inte aldrig utan",
        "norwegian": "nei ikke aldri uten",
        "danish": "nej ikke aldrig uden",
        "finnish": "ei en eivät ilman",
        "polish": "nie nigdy bez",
        "czech": "ne není nikdy bez",
        "romanian": "nu niciodată fără",
        "hungarian": "nem soha nélkül",
        "russian": "не нет никогда",
        "turkish": "değil yok hayır",
    }.items()
}

LANGUAGES_BY_WORD: Mapping[str, tuple[str, ...]] = {
    word: tuple(
        language
        for language, words in STOP_WORDS.items()
        if word in words or word in _NEGATIONS[language]
    )
    for word in frozenset[str]().union(*STOP_WORDS.values(), *_NEGATIONS.values())
}

# Letters that suggest a language when a short query has no function word.
LETTERS: Mapping[str, tuple[str, ...]] = {
    "ä": ("german", "swedish", "finnish"),
    "ö": ("german", "swedish", "finnish", "hungarian", "turkish"),
    "ü": ("german", "hungarian", "turkish"),
    "à": ("french", "italian"),
    "â": ("french", "portuguese", "romanian"),
    "ê": ("french", "portuguese"),
    "è": ("french", "italian"),
    "é": ("french", "spanish", "portuguese", "czech", "hungarian"),
    "ç": ("french", "portuguese", "turkish"),
    "œ": ("french",),
    "ñ": ("spanish",),
    "á": ("spanish", "portuguese", "czech", "hungarian"),
    "í": ("spanish", "portuguese", "czech", "hungarian"),
    "ó": ("spanish", "portuguese", "polish", "hungarian"),
    "ò": ("italian",),
    "ù": ("italian", "french"),
    "ã": ("portuguese",),
    "õ": ("portuguese",),
    "å": ("swedish", "norwegian", "danish"),
    "ø": ("norwegian", "danish"),
    "æ": ("danish", "norwegian"),
    "ą": ("polish",),
    "ę": ("polish",),
    "ł": ("polish",),
    "ż": ("polish",),
    "ř": ("czech",),
    "ě": ("czech",),
    "ů": ("czech",),
    "ă": ("romanian",),
    "ș": ("romanian",),
    "ț": ("romanian",),
    "ő": ("hungarian",),
    "ű": ("hungarian",),
    "ğ": ("turkish",),
    "ş": ("turkish",),
    "\u0131": ("turkish",),
}
