"""`recollect learn`: what would be learnt, what waits, what it cost."""

import json
from pathlib import Path

from cli_support import recollect


def test_waiting_and_the_bill_of_a_quiet_house_are_empty(restored: Path) -> None:
    for verb, said in (
        ("waiting", "nothing waits\n"),
        ("bill", "no model was asked in the last 30 days\n"),
    ):
        shown = recollect("learn", verb, "--data-dir", str(restored))

        assert (shown.code, shown.out, shown.err) == (0, "", said)


def test_what_does_not_wait_cannot_be_decided(restored: Path) -> None:
    shown = recollect(
        "learn", "accept", "0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20", "--data-dir", str(restored)
    )

    assert shown.code == 1
    assert "Nothing of that id waits" in shown.err


def test_distil_shows_what_would_be_learnt_and_keeps_nothing(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    said.write_text("Hello! I live in Oslo. My password is hunter22.", "utf-8")

    shown = recollect("distil", "--dry-run", str(said))
    refused = recollect("distil", str(said))
    missing = recollect("distil", "--dry-run", str(tmp_path / "none.txt"))

    assert [json.loads(line)["content"] for line in shown.out.splitlines()] == [
        "The user lives in Oslo."
    ]
    assert refused.code == 2
    assert "--dry-run" in refused.err
    assert (missing.code, "cannot be read" in missing.err) == (1, True)
