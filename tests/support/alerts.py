"""The alert rules of `docs/operations.md`, evaluated against what `/metrics` shows.

They use little of Prometheus: a metric with matchers, the increase of a counter, a threshold.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.markdown_docs import PROJECT
from tests.support.metrics import Samples

_RULE = re.compile(r"- alert: (\w+)\n +expr: (.+)\n")
_EXPRESSION = re.compile(r"(increase\()?(\w+)(?:\{(.*?)\})?(?:\[\w+\]\))? > (\d+)")
_MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')


@dataclass(frozen=True)
class Alert:
    """One rule: which series it looks at, and above which value it fires."""

    name: str
    metric: str
    matchers: Mapping[str, re.Pattern[str]]
    is_increase: bool
    above: float

    def series(self, samples: Samples) -> Samples:
        """The series that the rule is about."""
        return {
            (name, labels): value
            for (name, labels), value in samples.items()
            if name == self.metric
            and all(
                pattern.fullmatch(dict(labels).get(label, ""))
                for label, pattern in self.matchers.items()
            )
        }

    def fires(self, before: Samples, now: Samples) -> bool:
        """Whether it fires now; `before` is as long ago as its window is wide."""
        earlier = self.series(before) if self.is_increase else {}
        return any(
            value - earlier.get(series, 0.0) > self.above
            for series, value in self.series(now).items()
        )


def alerts() -> dict[str, Alert]:
    """Every rule that the document shows, by its name."""
    text = (PROJECT / "docs" / "operations.md").read_text("utf-8")
    return {name: _read(name, expression) for name, expression in _RULE.findall(text)}


def _read(name: str, expression: str) -> Alert:
    read = _EXPRESSION.fullmatch(expression)
    assert read, f"{name} has an expression that this evaluator does not know: {expression}"
    increase, metric, matchers, above = read.groups()
    return Alert(
        name,
        metric,
        {
            label: re.compile(value if operator == "=~" else re.escape(value))
            for label, operator, value in _MATCHER.findall(matchers or "")
        },
        is_increase=bool(increase),
        above=float(above),
    )
