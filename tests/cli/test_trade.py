"""`recollect export` and `recollect import`, beside a running house and without one."""

import json
import zipfile
from pathlib import Path

from cli_support import recollect

from tests.support.running import Running


def test_an_export_of_a_running_house_is_known_to_its_copy_and_new_to_another(
    house: Running, restored: Path, desk: Path
) -> None:
    made = recollect("export", desk / "house.zip", "--data-dir", house.data_dir)
    assert (made.code, made.out) == (0, f"{desk / 'house.zip'}\n"), made.err
    assert "memories" in made.err

    # Its copy knows it all, once it has what the house was told since it was copied.
    first, again = [
        recollect("import", desk / "house.zip", "--data-dir", restored) for _ in range(2)
    ]
    assert (first.code, again.code) == (0, 0), again.err
    told = {line.split()[0]: line.split()[1:] for line in again.out.splitlines()}
    assert told["memory"][0] == "0"
    assert int(told["memory"][1]) >= 4

    created = recollect("workspace", "create", "other", "--data-dir", restored)
    assert created.code == 0, created.err
    tried = recollect(
        "import", desk / "house.zip", "--workspace", "other", "--dry-run", "--data-dir", restored
    )
    assert tried.code == 0, tried.err
    assert "WOULD KEEP" in tried.out
    done = recollect("import", desk / "house.zip", "--workspace", "other", "--data-dir", restored)
    assert done.code == 0, done.err
    lines = recollect("export", "-", "--workspace", "other", "--data-dir", restored)
    kinds = [json.loads(line)["type"] for line in lines.out.splitlines()]
    with zipfile.ZipFile(desk / "house.zip") as archive:
        before = [json.loads(line)["type"] for line in archive.read("recollect.jsonl").splitlines()]
    assert kinds == before


def test_what_other_systems_wrote_comes_in_and_what_is_broken_is_told(
    restored: Path, desk: Path
) -> None:
    (desk / "notes.md").write_text("- Ada drinks tea\n- Grace drinks coffee\n")
    (desk / "mem0.json").write_text('[{"id": "1", "memory": "Likes trains"}, {"id": "2"}]')

    notes = recollect("import", "--from", "markdown", desk / "notes.md", "--data-dir", restored)
    mem0 = recollect(
        *("import", "--from", "mem0", desk / "mem0.json", "--no-wait"),
        *("--report", desk / "report.jsonl", "--data-dir", restored),
    )

    assert (notes.code, notes.out.split()[-4:]) == (0, ["memory", "2", "0", "0"]), notes.err
    assert (mem0.code, mem0.out.split()[-4:]) == (1, ["memory", "1", "0", "1"])
    assert "mem0.json, item 2: memory refused: it has no text in `memory`" in mem0.err
    assert json.loads((desk / "report.jsonl").read_text())["where"] == "mem0.json, item 2"


def test_what_cannot_be_done_is_said_in_a_line(restored: Path, desk: Path) -> None:
    (desk / "there.zip").write_text("mine")
    (desk / "noise.zip").write_text("no zip at all")
    wrong = {
        "exists. Choose another name": ("export", desk / "there.zip"),
        "There is no such workspace": ("export", "-", "--workspace", "nowhere"),
        "There is no user `nobody`": ("export", "-", "--user", "nobody"),
        "is no id of a session": ("export", "-", "--thread", "?"),
        "cannot be read": ("import", desk / "nowhere.zip"),
        "This is no export of Recollect": ("import", desk / "noise.zip"),
    }

    for why, words in wrong.items():
        said = recollect(*words, "--data-dir", restored)

        assert (said.code, said.out) == (1, ""), words
        assert why in said.err
        assert len(said.err.splitlines()) == 1, said.err
    assert (desk / "there.zip").read_text() == "mine"
    absent = recollect("import", desk / "noise.zip", "--data-dir", desk / "empty")
    assert "There is no house" in absent.err
