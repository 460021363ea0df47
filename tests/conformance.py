"""Which numbered statements have a passing test: `make conformance`.

Tests carry the numbers they hold in their names (`test_R017_...`). This runs those tests and prints
the numbers that pass, fail, or have no test yet. Exit code 1 when one fails.
"""

import re
import sys
from collections import defaultdict

import pytest

NUMBERS = [f"R{number:03}" for number in range(1, 309)] + [f"N{n:02}" for n in range(1, 41)]
_IN_NAME = re.compile(r"(?:(?<=_)|(?<=\b))(R\d{3}|N\d{2})(?=_|\b|\[)")


def numbers_in(name: str) -> list[str]:
    """The numbers a test's name carries."""
    return _IN_NAME.findall(name.rsplit("::", maxsplit=1)[-1].split("[", maxsplit=1)[0])


class Ledger:
    """Keeps the outcome of every numbered test."""

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
    ledger = Ledger()
    code = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]], [ledger])
    passing = [
        number for number in NUMBERS if ledger.outcomes[number] and all(ledger.outcomes[number])
    ]
    failing = [number for number in NUMBERS if not all(ledger.outcomes[number])]
    missing = [number for number in NUMBERS if not ledger.outcomes[number]]
    print(f"\nConformance: {len(passing)} of {len(NUMBERS)} have a passing test.")
    print(f"passing  {_ranges(passing)}")
    print(f"failing  {_ranges(failing)}")
    print(f"no test  {_ranges(missing)}")
    sys.exit(1 if failing or code not in {0, 5} else 0)


def _ranges(numbers: list[str]) -> str:
    """Neighbours joined: R001-R003, N05."""
    runs: list[list[str]] = []
    for number in numbers:
        at = NUMBERS.index(number)
        if runs and NUMBERS.index(runs[-1][-1]) == at - 1 and runs[-1][-1][0] == number[0]:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(told) or "none"


if __name__ == "__main__":
    main()
