"""The days that a question names, and how near a memory is to them."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.search.query_dates.dates import DateRange, QueryDates, dates_in

# A Wednesday.
NOW = datetime(2026, 11, 18, 9, tzinfo=UTC)


def span(question: str) -> list[tuple[str, str]]:
    return [(str(each.first), str(each.last)) for each in dates_in(question, NOW).days]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What happened on 2023-05-08?", "2023-05-08", "2023-05-08"),
        ("And in 2023-05?", "2023-05-01", "2023-05-31"),
        ("What was agreed on 8.5.2023?", "2023-05-08", "2023-05-08"),
        ("What did Gina find on 1 February, 2023?", "2023-02-01", "2023-02-01"),
        ("What was shown on October 13, 2023?", "2023-10-13", "2023-10-13"),
        ("the 2nd of March 2024", "2024-03-02", "2024-03-02"),
        ("What did we decide in February 2024?", "2024-02-01", "2024-02-29"),
        ("Where was I in 2024?", "2024-01-01", "2024-12-31"),
        ("Was ist am 8. Mai 2023 passiert?", "2023-05-08", "2023-05-08"),
        ("¿Qué pasó el 8 de mayo de 2023?", "2023-05-08", "2023-05-08"),
        ("Qu'avons-nous décidé en août 2024 ?", "2024-08-01", "2024-08-31"),
        ("What did I say yesterday?", "2026-11-17", "2026-11-17"),
        ("the day before yesterday", "2026-11-16", "2026-11-16"),
        ("What did I eat last week?", "2026-11-09", "2026-11-15"),
        ("What did we do last weekend?", "2026-11-14", "2026-11-15"),
        ("What was planned this month?", "2026-11-01", "2026-11-30"),
        ("Which book did I read last month?", "2026-10-01", "2026-10-31"),
        ("How often did I bake in the past two weeks?", "2026-11-04", "2026-11-18"),
        ("Which book did I finish a week ago?", "2026-11-08", "2026-11-14"),
        ("a couple of days ago", "2026-11-16", "2026-11-16"),
        ("Who called last night?", "2026-11-17", "2026-11-17"),
        ("Who came last Saturday?", "2026-11-14", "2026-11-14"),
        ("What did I say on Wednesday?", "2026-11-11", "2026-11-11"),
        ("What has Ana read since Monday?", "2026-11-16", "2026-11-18"),
        ("What has changed since 8 May 2023?", "2023-05-08", "2026-11-18"),
        ("Who came after the 3rd of March 2024?", "2024-03-04", "2026-11-18"),
        ("Where did I live before 2020?", "1000-01-01", "2019-12-31"),
        ("What was true until last week?", "1000-01-01", "2026-11-15"),
        ("What did we buy since December?", "2025-12-01", "2026-11-18"),
        ("Who led it between 2019 and 2021?", "2019-01-01", "2021-12-31"),
        ("Did we meet on 2 may in Rome?", "2000-05-02", "2000-05-02"),
        ("Did we meet 2 March?", "2000-03-02", "2000-03-02"),
    ],
)
def test_a_named_time_is_a_range_of_days(question: str, first: str, last: str) -> None:
    assert span(question) == [(first, last)]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What did we talk about yesterday?", []),
        ("last week", []),
        ("Tell me everything from 2023-05-08", ["2023-05-08"]),
        ("What happened on September 12th?", ["12 september"]),
        ("What did we discuss in May 2023?", ["may 2023"]),
        ("What's new in 2023? Anything?", None),
        ("What happened in 2023?", ["2023"]),
        # Within a text, "may" is usually not the month.
        ("What did I say in May?", []),
        ("What did I say yesterday and on 8 May?", ["8 may"]),
        ("What did I say on 8 May or 9 May?", ["8 may", "9 may"]),
        ("What did Ana say yesterday?", None),
        ("What happened since May?", []),
        ("What have we done since 8 May 2023?", []),
        ("What happened from 2019 to 2021?", []),
        # Plans for the future may have been mentioned at any time.
        ("What do I have on Monday?", None),
        ("What should I do this weekend?", None),
        ("What happens on 12 September?", None),
        ("What do you know of April?", None),
        ("What happened?", None),
    ],
)
def test_a_question_may_ask_only_for_a_time(question: str, named: list[str] | None) -> None:
    meant = dates_in(question, NOW)
    assert (list(meant.named) if meant.is_all else None) == named


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("Worüber haben wir gestern gesprochen?", "2026-11-17", "2026-11-17"),
        ("Was war letzte Woche los?", "2026-11-09", "2026-11-15"),
        ("Was habe ich vor zwei Wochen gesagt?", "2026-11-01", "2026-11-07"),
        ("Was haben wir in den letzten drei Tagen besprochen?", "2026-11-15", "2026-11-18"),
        ("Was ist seit Dienstag passiert?", "2026-11-17", "2026-11-18"),
        ("Qu\u2019est-ce que j\u2019ai dit hier ?", "2026-11-17", "2026-11-17"),
        ("De quoi avons-nous parlé la semaine dernière ?", "2026-11-09", "2026-11-15"),
        ("Qu'est-ce que j'ai fait l'an dernier ?", "2025-01-01", "2025-12-31"),
        ("¿De qué hablamos anteayer?", "2026-11-16", "2026-11-16"),
        ("¿Qué hice el fin de semana pasado?", "2026-11-14", "2026-11-15"),
        ("¿Qué dije hace dos meses?", "2026-09-04", "2026-10-04"),
        ("Che cosa abbiamo detto l'altro ieri?", "2026-11-16", "2026-11-16"),
        ("Cosa ho detto due settimane fa?", "2026-11-01", "2026-11-07"),
        ("Sobre o que falamos no mês passado?", "2026-10-01", "2026-10-31"),
        ("Waar hebben we gisteren over gesproken?", "2026-11-17", "2026-11-17"),
        ("О чём мы говорили на прошлой неделе?", "2026-11-09", "2026-11-15"),
        ("Что случилось в мае 2025?", "2025-05-01", "2025-05-31"),
        ("昨天我们聊了什么？", "2026-11-17", "2026-11-17"),
        ("上周我们讨论了什么", "2026-11-09", "2026-11-15"),
        ("2025年3月8日发生了什么？", "2025-03-08", "2025-03-08"),
        ("3月8日に何を話しましたか？", "2000-03-08", "2000-03-08"),
        ("先月何を話した？", "2026-10-01", "2026-10-31"),
        ("지난주에 우리가 무슨 얘기를 했지?", "2026-11-09", "2026-11-15"),
    ],
)
def test_times_are_understood_in_other_languages(question: str, first: str, last: str) -> None:
    assert span(question) == [(first, last)]
    assert dates_in(question, NOW).is_all


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("Was hat Ana am Montag gegessen?", "2026-11-16"),
        ("Qu'a mangé Ana lundi ?", "2026-11-16"),
        ("¿Qué comió Ana hace tres días?", "2026-11-15"),
        ("我三天前吃了什么？", "2026-11-15"),
        ("田中さんは月曜日に何を食べましたか", "2026-11-16"),
    ],
)
def test_a_question_about_more_than_a_time_does_not_return_the_whole_day(
    question: str, day: str
) -> None:
    assert span(question) == [(day, day)]
    assert not dates_in(question, NOW).is_all


def test_day_boundaries_follow_the_time_zone_of_the_question() -> None:
    pacific = timezone(timedelta(hours=-8))
    meant = dates_in("yesterday", datetime(2026, 11, 18, 20, tzinfo=pacific))
    [(begins, ends)] = meant.spans(NOW)
    assert (begins, ends) == (
        datetime(2026, 11, 17, 8, tzinfo=UTC),
        datetime(2026, 11, 18, 8, tzinfo=UTC),
    )


def test_a_day_without_a_year_is_searched_in_several_years() -> None:
    spans = dates_in("on 29 February", NOW).spans(NOW)
    assert [begins.year for begins, _ in spans] == [2016, 2020, 2024]
    assert len(dates_in("on 1 January", NOW).spans(NOW)) == 12


@pytest.mark.parametrize(
    "question",
    [
        "What may I eat?",
        "May I march on?",
        "Is Mars red?",
        "I think this may be wrong",
        "Who can I ask and may I call?",
        "Does she want to march?",
        "When is the mission to Mars?",
        "What did I get from April for my birthday?",
        "Where did Joe di Maggio play?",
        "Which section 2 may apply?",
        "a budget of 2000 euros",
        "a key of 2048 bits",
        "Which version is v2023.1.2?",
        "room 2024",
        "31 February 2023",
        "on 2023-13-45",
        "Was liegt hier?",
        "Wie heißt der Tag?",
        "When is Mardi Gras?",
        "Who sang with Plácido Domingo?",
        "13月8日",
        "",
    ],
)
def test_an_uncertain_date_is_ignored(question: str) -> None:
    assert span(question) == []


def test_dates_ignore_case_but_lookalike_letters_do_not_match() -> None:
    assert span("ON 5 MÄRZ 2023") == [("2023-03-05", "2023-03-05")]
    assert span("TWO WEEKS AGO, OR LAST SUNDAY") == [
        ("2026-11-01", "2026-11-07"),
        ("2026-11-15", "2026-11-15"),
    ]
    # A case-insensitive pattern would match these as "s" and "i".
    assert span("on 5 auguſt 2023, 5 APRİL 2023 or last ſunday") == []


def test_an_ambiguous_numeric_date_is_read_both_ways() -> None:
    assert span("on 05/08/2023") == [("2023-08-05", "2023-08-05"), ("2023-05-08", "2023-05-08")]
    assert span("on 05/18/2023") == [("2023-05-18", "2023-05-18")]


def test_a_month_without_a_year_matches_every_year() -> None:
    [june] = dates_in("When did Melanie go camping in June?", NOW).days

    assert june.away(date(2023, 6, 30)) == june.away(date(2026, 6, 1)) == 0
    assert june.away(date(2023, 7, 2)) == 2
    [new_year] = dates_in("What did we do on 1 January?", NOW).days
    assert new_year.away(date(2023, 12, 31)) == 1
    [leap] = dates_in("What did we do on 29 February?", NOW).days
    assert leap.away(date(2024, 2, 29)) == 0
    assert leap.away(date(2026, 2, 28)) > 300


def test_nearness_falls_with_the_distance_in_days() -> None:
    meant = dates_in("on 8 May 2023", NOW)

    def at(day: int) -> float:
        return meant.nearness(datetime(2023, 5, day, 12, tzinfo=UTC))

    assert at(8) == 1
    assert at(7) == at(9) == 1 / 2
    assert at(11) == 1 / 4
    assert QueryDates().nearness(datetime(2023, 5, 8, tzinfo=UTC)) == 0


def test_a_day_is_in_the_time_zone_of_the_question() -> None:
    """At 4 am in London it is the previous evening in Los Angeles."""
    pacific = timezone(timedelta(hours=-8))
    meant = dates_in("What did I say yesterday?", datetime(2026, 11, 18, 9, tzinfo=pacific))

    assert meant.nearness(datetime(2026, 11, 18, 4, tzinfo=UTC)) == 1
    assert meant.nearness(datetime(2026, 11, 17, 4, tzinfo=UTC)) == 1 / 2
    assert meant.nearness(datetime.max.replace(tzinfo=UTC)) < 0.01


@given(st.text(), st.dates())
@example("", date.min)
@example("", date.max)
def test_the_days_of_any_question_are_in_order(question: str, today: date) -> None:
    text = f"{question} 999 years ago, last month, last year, last weekend, {question} in May"
    asked_at = datetime.combine(today, time(), UTC)
    meant = dates_in(text, asked_at)
    assert all(begins <= ends for begins, ends in meant.spans(asked_at))
    for each in meant.days:
        assert each.first <= each.last
        assert each.away(today) >= 0


@given(st.dates(), st.dates(), st.dates())
def test_a_day_within_a_range_has_distance_zero(one: date, other: date, day: date) -> None:
    days = DateRange(min(one, other), max(one, other))
    assert (days.away(day) == 0) == (days.first <= day <= days.last)


def test_many_named_days_cause_a_bounded_number_of_searches() -> None:
    every = " and ".join(f"on {day} January" for day in range(1, 32))
    assert len(dates_in(every, NOW).spans(NOW)) == 60


def test_a_very_long_question_is_parsed_in_linear_time() -> None:
    assert span("a " * 1_000_000) == []
    assert span("in the past a couple of " * 100_000) == []
    assert span("vor 2 " * 100_000) == []
    assert span("年2月" * 100_000) != []
