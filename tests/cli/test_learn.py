"""`recollect learn` and `recollect distil`: candidates, review and model usage."""

import json
from pathlib import Path

from cli_support import recollect


def test_review_list_and_usage_of_an_unused_instance_are_empty(restored: Path) -> None:
    for verb, message in (
        ("waiting", "no candidates wait for review\n"),
        ("bill", "no model calls in the last 30 days\n"),
    ):
        shown = recollect("learn", verb, "--data-dir", str(restored))

        assert (shown.code, shown.out, shown.err) == (0, "", message)


def test_a_candidate_that_does_not_wait_cannot_be_accepted(restored: Path) -> None:
    shown = recollect(
        "learn", "accept", "0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20", "--data-dir", str(restored)
    )

    assert shown.code == 1
    assert "No candidate with id" in shown.err


def test_distil_shows_what_would_be_learnt(tmp_path: Path) -> None:
    message = tmp_path / "message.txt"
    message.write_text("Hello! I live in Oslo. My password is hunter22.", "utf-8")

    shown = recollect("distil", "--dry-run", str(message))
    refused = recollect("distil", str(message))
    missing = recollect("distil", "--dry-run", str(tmp_path / "none.txt"))

    assert [json.loads(line)["content"] for line in shown.out.splitlines()] == [
        "The user lives in Oslo."
    ]
    assert refused.code == 2
    assert "--dry-run" in refused.err
    assert (missing.code, "cannot be read" in missing.err) == (1, True)
