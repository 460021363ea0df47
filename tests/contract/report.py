"""Run the tests of all numbered statements and report each result: `make conformance`.

The exit code is 0 only if every statement has a test and every test with a number passes.
"""

import sys
from collections import defaultdict

import pytest

from tests.contract.statements import KINDS, Statement, numbered_tests, problems, statements


class Outcomes:
    """A pytest plugin that records which tests passed. It also works with pytest-xdist."""

    def __init__(self) -> None:
        self._passed: dict[str, list[bool]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._passed[report.nodeid.partition("[")[0]].append(report.passed)

    def of(self, test: str) -> str:
        if not self._passed[test]:
            return "not run"
        return "passed" if all(self._passed[test]) else "FAILED"


def main() -> None:
    listed, tests = statements(), numbered_tests()
    outcomes = Outcomes()
    every_test = sorted({test for named in tests.values() for test in named})
    pytest.main(["-q", "--no-header", *every_test, *sys.argv[1:]], [outcomes])

    results = {each.number: _result(tests.get(each.number, []), outcomes) for each in listed}
    for kind in KINDS:
        print()
        for statement in listed:
            if statement.number.startswith(kind):
                _print(statement, results[statement.number], tests, outcomes)
    found = problems(listed, tests)
    print("\n" + "\n".join([*found, _summary(list(results.values()), len(every_test))]))
    sys.exit(1 if found or set(results.values()) != {"passed"} else 0)


def _result(tests: list[str], outcomes: Outcomes) -> str:
    each = {outcomes.of(test) for test in tests}
    return next((result for result in ["FAILED", "not run", "passed"] if result in each), "no test")


def _print(
    statement: Statement, result: str, tests: dict[str, list[str]], outcomes: Outcomes
) -> None:
    print(f"{statement.number:5} {statement.interface:10} {result:8} {statement.text}")
    for test in tests.get(statement.number, []):
        outcome = outcomes.of(test)
        print(" " * 25 + (test if outcome == result else f"{outcome} {test}"))


def _summary(results: list[str], tests: int) -> str:
    counted = ", ".join(
        f"{results.count(result)} {result}"
        for result in ["passed", "FAILED", "not run", "no test"]
        if result in results
    )
    return f"{len(results)} statements, {tests} tests: {counted}."


if __name__ == "__main__":
    main()
