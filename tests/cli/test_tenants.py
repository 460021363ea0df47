"""`recollect org`, `user`, `workspace`, `project` and `agent`, next to a running server."""

import json
import re
from pathlib import Path

import httpx2
from cli_support import recollect

from tests.support.serve_process import ServeProcess

UUID = re.compile(r"[0-9a-f-]{36}\n")


def output_of(instance: ServeProcess, *words: str) -> str:
    """Return the output of a command that succeeds."""
    done = recollect(*words, "--data-dir", instance.data_dir)
    assert done.code == 0, done.err
    return done.out


def error_of(instance: ServeProcess, *words: str) -> str:
    """Return the error output of a command that fails."""
    done = recollect(*words, "--data-dir", instance.data_dir)
    assert (done.code, done.out) == (1, "")
    return done.err


def test_users_projects_and_agents_are_managed_next_to_a_running_server(
    instance: ServeProcess,
) -> None:
    assert UUID.fullmatch(output_of(instance, "user", "create", "grace"))
    project = output_of(instance, "project", "create", "apollo").strip()
    assert output_of(instance, "project", "invite", "apollo", "grace") == "invited\n"
    assert UUID.fullmatch(output_of(instance, "agent", "create", "scribe", "--project", "apollo"))
    # Lists show names, not ids: the members of a project, the project of an agent.
    assert re.search(
        r" apollo +active +grace$", output_of(instance, "project", "list"), re.MULTILINE
    )
    assert re.search(
        r" scribe +apollo +active$", output_of(instance, "agent", "list"), re.MULTILINE
    )
    key = output_of(instance, "key", "create", "--user", "grace", "--spelling", "alm_live_").strip()
    body = {"value": "the plan", "scope": "project", "projectId": project}
    headers = {"Authorization": f"Bearer {key}"}

    with httpx2.Client(base_url=instance.url, headers=headers, timeout=30) as http:
        saved = http.post("/api/v1/memories", json=body)
        path = f"/api/v1/memories/{saved.json()['data']['id']}"
        before = http.get(path).status_code
        removed = output_of(instance, "project", "remove", "apollo", "grace")
        after = http.get(path).status_code

    assert saved.status_code == 201
    assert (before, removed, after) == (200, "removed\n", 404)
    for words, shown in (
        (("org", "list"), "home"),
        (("user", "list"), "grace"),
        (("workspace", "list"), " home  default "),
        (("key", "list"), "  read,write,delete,admin  grace  default "),
    ):
        assert shown in output_of(instance, *words)


def test_a_password_reset_signs_the_user_out(instance: ServeProcess) -> None:
    output_of(instance, "user", "create", "edith")
    password = output_of(instance, "user", "password", "edith").strip()

    with httpx2.Client(base_url=instance.url, timeout=30) as http:
        entered = http.post("/login", json={"username": "edith", "password": password})
        inside = http.get("/chat/api/me").status_code
        another = output_of(instance, "user", "password", "edith").strip()
        after = http.get("/chat/api/me").status_code
        again = http.post("/login", json={"username": "edith", "password": another})

    assert (entered.status_code, inside, after, again.status_code) == (204, 200, 401, 204)
    assert error_of(instance, "user", "password", "nobody") == "recollect: There is no such user.\n"


def test_documents_are_added_listed_and_deleted_next_to_a_running_server(
    instance: ServeProcess, tmp_path: Path
) -> None:
    file = tmp_path / "plover.md"
    file.write_text("# Plover\n\nThe plover nests in March.")

    made = output_of(instance, "document", "add", str(file)).strip()
    listed = output_of(instance, "document", "list")
    gone = output_of(instance, "document", "delete", made)

    assert re.fullmatch(r"cart_\w{24}", made)
    assert made in listed
    assert "plover.md" in listed
    assert gone == "deleted\n"
    assert made not in output_of(instance, "document", "list")
    assert (
        error_of(instance, "document", "delete", made) == "recollect: There is no such document.\n"
    )
    missing = error_of(instance, "document", "add", str(tmp_path / "missing"))
    assert missing.endswith("missing` cannot be read: No such file or directory.\n")


def test_unknown_and_taken_names_are_reported_clearly(instance: ServeProcess) -> None:
    output_of(instance, "workspace", "create", "research")

    assert error_of(instance, "workspace", "create", "research") == (
        "recollect: The org already has a workspace with that name.\n"
    )
    assert error_of(instance, "workspace", "archive", "default") == (
        "recollect: The default workspace of an org cannot be archived.\n"
    )
    assert error_of(instance, "project", "invite", "gemini", "admin") == (
        "recollect: There is no such project.\n"
    )
    assert error_of(instance, "user", "archive", "nobody") == "recollect: There is no such user.\n"
    for words in (("create", "labs", "--embedder", "minilm"), ("embedder", "research", "minilm")):
        assert "No embedder with that name is configured" in error_of(instance, "workspace", *words)


def test_a_user_is_erased_and_the_receipt_is_verified(
    instance: ServeProcess, tmp_path: Path
) -> None:
    output_of(instance, "user", "create", "charles")
    key = output_of(instance, "key", "create", "--user", "charles").strip()
    headers = {"X-API-Key": key}
    with httpx2.Client(base_url=instance.url, headers=headers, timeout=30) as http:
        http.post("/v1/memories", json={"content": "Charles builds engines"})
        kept = http.get("/v1/memories").status_code

        counted = recollect("erase", "user", "charles", "--data-dir", instance.data_dir)
        tried = recollect("erase", "user", "charles", "--dry-run", "--data-dir", instance.data_dir)
        done = recollect("erase", "user", "charles", "--yes", "--data-dir", instance.data_dir)
        receipt = done.out
        status_after = http.get("/v1/memories").status_code

    file = tmp_path / "receipt.json"
    file.write_text(receipt)
    forged = tmp_path / "forged.json"
    forged.write_text(receipt.replace('"number": ', '"number": 1'))
    assert (counted.code, counted.out, tried.code, tried.out) == (1, "", 0, "")
    assert "Nothing was deleted. Add --yes" in counted.err
    assert done.code == 0
    assert re.fullmatch(r"( +\d+  [a-z_ ]+\n)+", done.err)  # and no log lines
    assert json.loads(receipt)["counts"]["memory"] == 1
    assert (kept, status_after) == (200, 401)
    for receipt_of in (str(file), json.loads(receipt)["receipt"]):
        assert "No data of it was found" in output_of(instance, "verify-erasure", receipt_of)
    assert recollect("verify-erasure", str(forged), "--data-dir", instance.data_dir).code == 1
    assert output_of(instance, "erase", "again", str(file), "--yes") == ""
    assert "its hash does not match" in error_of(instance, "erase", "again", str(forged), "--yes")
    assert "not a receipt" in error_of(instance, "verify-erasure", str(Path(__file__)))
    assert error_of(instance, "erase", "user", "charles") == "recollect: There is no such user.\n"


def test_only_an_archived_workspace_can_be_deleted(instance: ServeProcess) -> None:
    output_of(instance, "workspace", "create", "attic")

    assert "Archive the workspace first" in error_of(
        instance, "workspace", "delete", "attic", "--yes"
    )
    output_of(instance, "workspace", "archive", "attic")
    assert (
        json.loads(output_of(instance, "workspace", "delete", "attic", "--yes"))["kind"]
        == "workspace"
    )
    assert "attic" not in output_of(instance, "workspace", "list")
