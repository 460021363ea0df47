"""Help texts, and one clear line for wrong input. These tests run in process: no command starts."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from cli_support import environment

from recollect import __version__
from recollect.cli import _make_parser, main


def _commands(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[list[str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            choices = cast("dict[str, argparse.ArgumentParser]", action.choices)
            for name, each in choices.items():
                yield [*words, name]
                yield from _commands(each, [*words, name])


COMMANDS = list(_commands(_make_parser(), []))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_shows_an_example_of_the_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])

    message = capsys.readouterr().out
    assert ended.value.code == 0
    assert "recollect " + " ".join(words) in message.split("example:\n", 1)[1]
    assert "--data-dir" in message


def test_the_main_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    message = capsys.readouterr().out
    assert len(COMMANDS) >= 16
    listed = {line.split()[0] for line in message.splitlines() if line.startswith("    ")}
    assert {words[0] for words in COMMANDS} - listed == set()


def test_version_prints_the_version_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"recollect {__version__}\n"


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "version"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["sevre"], "invalid choice: 'sevre'"),
        (["key"], "VERB"),
        (
            ["key", "create", "--expires", "soon"],
            "`soon` is not a valid time: write 2027-01-31, 90d or 12h",
        ),
        (["key", "create", "--expires", "99999999999d"], "is not a valid time"),
        (["key", "create", "--expires", "²d"], "is not a valid time"),
        (["key", "create", "--rights", "read,fly"], "rights are read, write, delete, admin"),
        (["serve", "--port", "http"], "invalid int value: 'http'"),
        (["work", "--slots", "0"], "`0` is not a whole number greater than zero"),
        (["jobs", "list", "--limit", "-1"], "`-1` is not a whole number greater than zero"),
        (["jobs", "retry", "all"], "invalid UUID value: 'all'"),
        (["move"], "--to"),
        (["move", "--to", "mysql://db/instance"], "must begin with `postgresql://`"),
        (["move", "--to", "postgresql://[::1/instance"], "cannot be read"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_problem(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert message in printed.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DATABASE_URL", "mysql://db/instance", "`DATABASE_URL` must begin with `postgresql://`."),
        ("DATABASE_URL", "postgresql://u:s3cret@[::1/instance", "`DATABASE_URL` cannot be read: "),
        (
            "DATABASE_URL",
            "postgresql://u:s3cret@h/instance?hots=x",
            "`DATABASE_URL` cannot be read: ",
        ),
        ("RECOLLECT_PORT", "http", "The setting `port` must be a whole number."),
        ("RECOLLECT_PGBOUNCER", "maybe", "The setting `pgbouncer` must be `true` or `false`."),
        ("RECOLLECT_CONFIG", "/nonexistent.toml", "`/nonexistent.toml` does not exist."),
    ],
)
def test_a_wrong_setting_exits_with_1_and_one_line(
    name: str,
    value: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit) as ended:
        main(["migrate"])

    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err.count("\n")) == (1, "", 1)
    assert message in printed.err
    assert "s3cret" not in printed.err


def test_a_settings_file_that_is_not_toml_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "instance.toml"
    file.write_text("port = = 1")

    with pytest.raises(SystemExit) as ended:
        main(["migrate", "--config", str(file)])

    assert ended.value.code == 1
    assert f"`{file}` is not valid TOML" in capsys.readouterr().err
