"""Compare rankings with the evidence: the metrics of each method by dataset, level and category."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean, median
from typing import Any

from bench import metrics
from bench.datasets import DataSet, Question, Unit
from bench.metrics import Quality

OURS = "ours"


@dataclass(frozen=True, slots=True)
class UnitRanking:
    """A ranking of units by storage position, its confidence, and the context for a model."""

    positions: Sequence[int]
    confidence: float
    context: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one category: mean metrics, and metrics per question for paired comparison."""

    method: str
    quality: Quality
    each: Sequence[Quality]
    tokens: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One dataset at one level: rows by category, and metrics over all questions."""

    name: str
    rows: Mapping[str, Sequence[Row]]
    counts: Mapping[str, int]
    update_order: Mapping[str, float]
    updates: int
    abstention: Mapping[str, float]
    unanswerable: int
    milliseconds: Sequence[float]


def compare(data: DataSet, methods: Mapping[str, Sequence[UnitRanking]]) -> list[Comparison]:
    """Compare at the level of units and, if sessions are marked as evidence, of sessions."""
    return [
        _at_level(data, methods, level, name_of, gold_of)
        for level, name_of, gold_of in _levels(data)
    ]


_Namer = Callable[[Unit], str]
_Gold = Callable[[Question], frozenset[str]]


def _levels(data: DataSet) -> Iterable[tuple[str, _Namer, _Gold]]:
    if any(question.gold for question in data.questions):
        yield "fact" if data.name.endswith("facts") else "turn", _unit_id, _gold
    if not data.name.endswith("facts"):
        yield "session", _session, _gold_sessions


def _unit_id(unit: Unit) -> str:
    return unit.id


def _session(unit: Unit) -> str:
    return unit.session


def _gold(question: Question) -> frozenset[str]:
    return question.gold


def _gold_sessions(question: Question) -> frozenset[str]:
    return question.gold_sessions


def _at_level(
    data: DataSet,
    methods: Mapping[str, Sequence[UnitRanking]],
    level: str,
    name_of: _Namer,
    gold_of: _Gold,
) -> Comparison:
    names = {scope: [name_of(unit) for unit in units] for scope, units in data.scopes.items()}

    def ranking(question: Question, answer: UnitRanking) -> list[str]:
        found = [names[question.scope][position] for position in answer.positions]
        return found if level != "session" else list(dict.fromkeys(found))

    asked = [
        n for n, each in enumerate(data.questions) if gold_of(each) and not each.is_unanswerable
    ]
    categories = {"all": asked}
    for number in asked:
        categories.setdefault(data.questions[number].category, []).append(number)

    def row(method: str, numbers: Sequence[int]) -> Row:
        answers = methods[method]
        each = [
            metrics.quality(ranking(data.questions[n], answers[n]), gold_of(data.questions[n]))
            for n in numbers
        ]
        return Row(method, _mean(each), each, fmean(_tokens(answers[n].context) for n in numbers))

    return Comparison(
        name=f"{data.name}, {level}",
        rows={
            category: [row(method, numbers) for method in methods]
            for category, numbers in sorted(categories.items())
        },
        counts={category: len(numbers) for category, numbers in categories.items()},
        **_over_all(data, methods, asked, ranking, is_session=level == "session"),
    )


def _over_all(
    data: DataSet,
    methods: Mapping[str, Sequence[UnitRanking]],
    asked: Sequence[int],
    ranking: Callable[[Question, UnitRanking], list[str]],
    *,
    is_session: bool,
) -> dict[str, Any]:
    ages = {n: data.evidence_by_age(data.questions[n]) for n in asked}
    # Only questions with older evidence.
    updates = [
        n
        for n in asked
        if "update" in data.questions[n].category.lower() and all(ages[n]) and not is_session
    ]
    never = [n for n, each in enumerate(data.questions) if each.is_unanswerable]
    return {
        "update_order": {
            method: fmean(
                metrics.newest_leads(ranking(data.questions[n], answers[n]), *ages[n])
                for n in updates
            )
            for method, answers in methods.items()
            if updates
        },
        "updates": len(updates),
        "abstention": {
            method: metrics.auroc(
                [answers[n].confidence for n in asked], [answers[n].confidence for n in never]
            )
            for method, answers in methods.items()
            if never and not is_session
        },
        "unanswerable": len(never),
        "milliseconds": sorted(
            1_000 * each.seconds for each in methods[OURS] if each.seconds is not None
        ),
    }


def table(comparison: Sequence[Comparison]) -> str:
    """Return everything as Markdown."""
    return "\n\n".join(map(_section, comparison))


_HEAD = (
    "| category | questions | method | recall@5 | recall@10 | hit@10 | all@10 | MRR | NDCG@10 "
    "| tokens |"
)


def _section(comparison: Comparison) -> str:
    lines = [
        f"### {comparison.name}",
        "",
        _HEAD,
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for category, rows in comparison.rows.items():
        lines += [_line(category, comparison.counts[category], row) for row in rows]
    return "\n".join([*lines, "", *_remarks(comparison)])


def _line(category: str, count: int, row: Row) -> str:
    q = row.quality
    cells = (q.recall_5, q.recall_10, q.hit_10, q.all_10, q.reciprocal_rank, q.ndcg_10)
    name = f"**{row.method}**" if row.method == OURS else row.method
    numbers = " | ".join(f"{value:.3f}" for value in cells)
    return f"| {category} | {count} | {name} | {numbers} | {row.tokens:.0f} |"


def _remarks(comparison: Comparison) -> list[str]:
    remarks = [f"- {line}" for line in _differences(comparison.rows["all"])]
    if comparison.update_order:
        remarks.append(
            f"- newest evidence first ({comparison.updates} questions): "
            f"{_format(comparison.update_order)}"
        )
    if comparison.abstention:
        remarks.append(
            f"- AUROC of the best score, answerable against {comparison.unanswerable} unanswerable "
            f"questions: {_format(comparison.abstention)}"
        )
    times = comparison.milliseconds
    remarks.append(
        f"- recall over HTTP: p50 {median(times):.0f} ms, "
        f"p95 {times[int(0.95 * (len(times) - 1))]:.0f} ms"
    )
    return remarks


def _differences(rows: Sequence[Row]) -> list[str]:
    """Return ours minus each baseline, with the paired 95 % bootstrap interval."""
    ours = next(row for row in rows if row.method == OURS)
    lines: list[str] = []
    for row in rows:
        if row.method == OURS:
            continue
        parts: list[str] = []
        for name, label in (
            ("recall_5", "recall@5"),
            ("recall_10", "recall@10"),
            ("ndcg_10", "NDCG@10"),
        ):
            gain = metrics.difference(
                [getattr(each, name) for each in ours.each],
                [getattr(each, name) for each in row.each],
            )
            parts.append(f"{label} {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")
        lines.append(f"ours less {row.method}: {', '.join(parts)}")
    return lines


def _format(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _mean(each: Sequence[Quality]) -> Quality:
    return Quality(*(fmean(getattr(one, field.name) for one in each) for field in fields(Quality)))


def _tokens(text: str) -> float:
    """Estimate the tokens: English has about four characters per token."""
    return len(text) / 4
