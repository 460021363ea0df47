"""`recollect export` and `recollect import`, with and without a running server."""

import json
import zipfile
from pathlib import Path

from cli_support import recollect

from tests.support.serve_process import ServeProcess


def test_an_export_adds_nothing_to_its_copy_but_fills_another_workspace(
    instance: ServeProcess, restored: Path, workdir: Path
) -> None:
    made = recollect("export", workdir / "instance.zip", "--data-dir", instance.data_dir)
    assert (made.code, made.out) == (0, f"{workdir / 'instance.zip'}\n"), made.err
    assert "memories" in made.err

    # The first import adds data saved after the copy was made; the second finds nothing new.
    first, again = [
        recollect("import", workdir / "instance.zip", "--data-dir", restored) for _ in range(2)
    ]
    assert (first.code, again.code) == (0, 0), again.err
    counts = {line.split()[0]: line.split()[1:] for line in again.out.splitlines()}
    assert counts["memory"][0] == "0"
    assert int(counts["memory"][1]) >= 4

    created = recollect("workspace", "create", "other", "--data-dir", restored)
    assert created.code == 0, created.err
    dry_run = recollect(
        "import",
        workdir / "instance.zip",
        "--workspace",
        "other",
        "--dry-run",
        "--data-dir",
        restored,
    )
    assert dry_run.code == 0, dry_run.err
    assert "WOULD IMPORT" in dry_run.out
    done = recollect(
        "import", workdir / "instance.zip", "--workspace", "other", "--data-dir", restored
    )
    assert done.code == 0, done.err
    lines = recollect("export", "-", "--workspace", "other", "--data-dir", restored)
    kinds = [json.loads(line)["type"] for line in lines.out.splitlines()]
    with zipfile.ZipFile(workdir / "instance.zip") as archive:
        before = [json.loads(line)["type"] for line in archive.read("recollect.jsonl").splitlines()]
    assert kinds == before


def test_data_of_other_systems_is_imported_and_bad_items_are_reported(
    restored: Path, workdir: Path
) -> None:
    (workdir / "notes.md").write_text("- Ada drinks tea\n- Grace drinks coffee\n")
    (workdir / "mem0.json").write_text('[{"id": "1", "memory": "Likes trains"}, {"id": "2"}]')

    notes = recollect("import", "--from", "markdown", workdir / "notes.md", "--data-dir", restored)
    mem0 = recollect(
        *("import", "--from", "mem0", workdir / "mem0.json", "--no-wait"),
        *("--report", workdir / "report.jsonl", "--data-dir", restored),
    )

    assert (notes.code, notes.out.split()[-4:]) == (0, ["memory", "2", "0", "0"]), notes.err
    assert (mem0.code, mem0.out.split()[-4:]) == (1, ["memory", "1", "0", "1"])
    assert "mem0.json, item 2: memory rejected: it has no text in `memory`" in mem0.err
    assert json.loads((workdir / "report.jsonl").read_text())["where"] == "mem0.json, item 2"


def test_each_error_is_reported_in_one_line(restored: Path, workdir: Path) -> None:
    (workdir / "there.zip").write_text("mine")
    (workdir / "noise.zip").write_text("no zip at all")
    wrong = {
        "exists. Choose another name": ("export", workdir / "there.zip"),
        "There is no such workspace": ("export", "-", "--workspace", "nowhere"),
        "There is no user `nobody`": ("export", "-", "--user", "nobody"),
        "is not an id of a session": ("export", "-", "--thread", "?"),
        "cannot be read": ("import", workdir / "nowhere.zip"),
        "This is not an export of Recollect": ("import", workdir / "noise.zip"),
    }

    for why, words in wrong.items():
        result = recollect(*words, "--data-dir", restored)

        assert (result.code, result.out) == (1, ""), words
        assert why in result.err
        assert len(result.err.splitlines()) == 1, result.err
    assert (workdir / "there.zip").read_text() == "mine"
    absent = recollect("import", workdir / "noise.zip", "--data-dir", workdir / "empty")
    assert "There is no Recollect data" in absent.err
