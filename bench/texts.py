"""Generated memories and questions: varied English sentences, the same on every run."""

import random
from collections.abc import Iterator

_NAMES = """
    Ada Amir Anna Beatriz Boris Carla Chen Daniel Dana Elif Emma Farid Fiona Georg Grace Hana Hugo
    Ines Ivan Jana Jonas Kamala Karl Lena Liam Maria Mateo Nadia Noah Olga Omar Petra Priya Quentin
    Rosa Ravi Sara Sven Tomas Tessa Uma Vera Viktor Wanda Xavier Yara Yusuf Zoe
""".split()  # noqa: SIM905 - readable as words
_ROLES = """
    accountant apprentice architect auditor baker client colleague contractor customer dentist
    designer doctor electrician engineer landlord lawyer manager neighbour nurse plumber professor
    recruiter reviewer sister supplier teacher team tenant translator uncle
""".split()  # noqa: SIM905 - readable as words
_VERBS = """
    admires avoids bought booked built cancelled checks collects compared copied cooked
    describes dislikes drew enjoys exported fixed forgot found imported
    inspected keeps learned likes lost maintains measured migrated moved names needs orders
    plans postponed praised prefers printed promised questions rebuilt recommends refuses rented
    repaired replaced reviewed sells sketched sold studies swapped tests tracks translated trusts
    upgraded uses visited wants watches wrote
""".split()  # noqa: SIM905 - readable as words
_ADJECTIVES = """
    amber annual blue brittle broken bright cheap cold crowded damp dark early electric empty
    foreign fragile French frozen German green grey heavy hidden honest Italian Japanese large late
    lazy leather light local loud magnetic monthly narrow new noisy old open orange paper patient
    plastic polite private public purple quiet rare red remote round rusty salty shared sharp short
    silver slow small soft Spanish spare spicy square steel strict sturdy sweet tall thin tiny
    vegetarian violet warm weekly white wide winter wooden yellow
""".split()  # noqa: SIM905 - readable as words
_THINGS = """
    account airport apartment archive bakery balcony bicycle bill blanket bookshelf bottle branch
    bridge budget cabinet calendar camera canteen car carpet ceiling certificate chair checklist
    chocolate clinic clock coffee compiler concert contract cupboard curtain cushion dashboard
    database deadline deposit desk diagram dinner document dog door draft dress drill editor engine
    envelope espresso estimate fence ferry festival firewall flight folder forecast fridge garage
    garden gearbox glove guitar hammer headphones heater helmet hinge holiday hotel index insurance
    interview invoice jacket kettle keyboard kitchen ladder lamp laptop lease lecture letter library
    licence lock luggage lunch machine mailbox map market mattress meeting menu microphone migration
    mirror modem monitor mortgage mountain museum needle newsletter notebook office orchard oven
    package paint parcel parking passport password pasta patch payment pencil phone photograph piano
    pillow pipeline platform policy portfolio poster printer prototype pump queue radiator railway
    receipt recipe refund release renovation report reservation restaurant roadmap roof router rug
    sandwich scanner schedule scooter screen sculpture server shelf shift shower signature sofa
    spreadsheet stairs statement station stove subscription suitcase sweater switch table tablet tax
    tea template tent terrace theatre ticket tile timetable toaster tool towel tractor train tram
    transcript translation trousers tunnel tyre umbrella vaccine valve van violin visa wallet
    warehouse warranty watch website wheel window wine workshop yoghurt
""".split()  # noqa: SIM905 - readable as words
_PLACES = """
    Accra Antwerp Athens Basel Bergen Berlin Bilbao Bogota Boston Bristol Brno Cairo Calgary Chennai
    Cork Dakar Denver Dublin Geneva Ghent Graz Hanoi Helsinki Izmir Kyoto Leeds Leipzig Lima Lisbon
    Lyon Malaga Manila Marseille Milan Montreal Munich Nairobi Naples Oslo Osaka Palermo Perth Porto
    Prague Quito Riga Rotterdam Seoul Seville Sofia Split Tallinn Tampa Toronto Turin Utrecht Vienna
    Vilnius Warsaw Zagreb Zurich
""".split()  # noqa: SIM905 - readable as words
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LINKS = ["because", "although", "since", "while", "after", "before", "and says that"]


def statements(seed: str) -> Iterator[str]:
    """Yield endless memories of 40 to 200 characters."""
    dice = random.Random(seed)
    while True:
        text = _sentence(dice)
        while len(text) < 40 or (len(text) < 150 and dice.random() < 0.5):
            text = f"{text[:-1]} {dice.choice(_LINKS)} {_clause(dice)}."
        yield text[:200]


def questions(seed: str) -> Iterator[str]:
    """Yield endless questions; there are 10^10, so repetitions are unlikely."""
    dice = random.Random(seed)
    while True:
        yield (
            f"What did {dice.choice(_NAMES)} and {dice.choice(_NAMES)} say about the "
            f"{dice.choice(_ADJECTIVES)} {dice.choice(_THINGS)} in {dice.choice(_PLACES)}?"
        )


def _sentence(dice: random.Random) -> str:
    match dice.randrange(3):
        case 0:
            return f"{dice.choice(_NAMES)} {_act(dice)} on {dice.choice(_DAYS)}."
        case 1:
            return f"{_person(dice)} {_act(dice)} in {dice.choice(_PLACES)}."
        case _:
            return (
                f"In {dice.randint(1990, 2030)} {_clause(dice)} for {dice.randint(2, 9_999)} euros."
            )


def _clause(dice: random.Random) -> str:
    return f"{_person(dice)} {_act(dice)}"


def _person(dice: random.Random) -> str:
    name = dice.choice(_NAMES)
    return f"{name}'s {dice.choice(_ROLES)}" if dice.random() < 0.5 else name


def _act(dice: random.Random) -> str:
    return f"{dice.choice(_VERBS)} the {dice.choice(_ADJECTIVES)} {_thing(dice)}"


def _thing(dice: random.Random) -> str:
    # As in real texts, a few things are frequent and most are rare.
    return _THINGS[int(len(_THINGS) * dice.random() ** 2)]
