"""Report which numbered statements have a passing test: `make conformance`.

A test has the numbers of its statements in its name (`test_R017_...`). This runs those tests and
prints the numbers that pass, fail, or have no test. The exit code is 1 if one fails.
"""

import re
import sys
from collections import defaultdict

import pytest

NUMBERS = [f"R{number:03}" for number in range(1, 309)] + [f"N{n:02}" for n in range(1, 41)]
_IN_NAME = re.compile(r"(?:(?<=_)|(?<=\b))(R\d{3}|N\d{2})(?=_|\b|\[)")


def numbers_in(name: str) -> list[str]:
    """The numbers in a test's name."""
    return _IN_NAME.findall(name.rsplit("::", maxsplit=1)[-1].split("[", maxsplit=1)[0])


class OutcomeRecorder:
    """A pytest plugin that records the outcome of every numbered test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[bool]] = defaultdict(list)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        numbered = [item for item in items if numbers_in(item.name)]
        config.hook.pytest_deselected(items=[item for item in items if item not in numbered])
        items[:] = numbered

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed or report.skipped:
            for number in numbers_in(report.nodeid):
                self.outcomes[number].append(report.passed)


def main() -> None:
    recorder = OutcomeRecorder()
    code = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]], [recorder])
    outcomes = recorder.outcomes
    passing = [number for number in NUMBERS if outcomes[number] and all(outcomes[number])]
    failing = [number for number in NUMBERS if not all(outcomes[number])]
    missing = [number for number in NUMBERS if not outcomes[number]]
    print(f"\nConformance: {len(passing)} of {len(NUMBERS)} have a passing test.")
    print(f"passing  {_ranges(passing)}")
    print(f"failing  {_ranges(failing)}")
    print(f"no test  {_ranges(missing)}")
    sys.exit(1 if failing or code not in {0, 5} else 0)


def _ranges(numbers: list[str]) -> str:
    """Consecutive numbers as ranges: R001-R003, N05."""
    runs: list[list[str]] = []
    for number in numbers:
        at = NUMBERS.index(number)
        if runs and NUMBERS.index(runs[-1][-1]) == at - 1 and runs[-1][-1][0] == number[0]:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(ranges) or "none"


if __name__ == "__main__":
    main()
