"""`recollect org`, `user`, `workspace`, `project` and `agent`, beside a running server."""

import json
import re
from pathlib import Path

import httpx2
from cli_support import recollect

from tests.support.running import Running

UUID = re.compile(r"[0-9a-f-]{36}\n")


def said(house: Running, *words: str) -> str:
    """What a command prints, once it went well."""
    done = recollect(*words, "--data-dir", house.data_dir)
    assert done.code == 0, done.err
    return done.out


def refused(house: Running, *words: str) -> str:
    """What a command complains of."""
    done = recollect(*words, "--data-dir", house.data_dir)
    assert (done.code, done.out) == (1, "")
    return done.err


def test_who_there_is_can_be_arranged_beside_a_running_server(house: Running) -> None:
    assert UUID.fullmatch(said(house, "user", "create", "grace"))
    project = said(house, "project", "create", "apollo").strip()
    assert said(house, "project", "invite", "apollo", "grace") == "invited\n"
    assert UUID.fullmatch(said(house, "agent", "create", "scribe", "--project", "apollo"))
    # People are told names: who is in a project, whose an agent is.
    assert re.search(r" apollo +active +grace$", said(house, "project", "list"), re.MULTILINE)
    assert re.search(r" scribe +apollo +active$", said(house, "agent", "list"), re.MULTILINE)
    key = said(house, "key", "create", "--user", "grace", "--spelling", "alm_live_").strip()
    body = {"value": "the plan", "scope": "project", "projectId": project}
    opens = {"Authorization": f"Bearer {key}"}

    with httpx2.Client(base_url=house.url, headers=opens, timeout=30) as http:
        saved = http.post("/api/v1/memories", json=body)
        path = f"/api/v1/memories/{saved.json()['data']['id']}"
        before = http.get(path).status_code
        removed = said(house, "project", "remove", "apollo", "grace")
        after = http.get(path).status_code

    assert saved.status_code == 201
    assert (before, removed, after) == (200, "removed\n", 404)
    for words, shown in (
        (("org", "list"), "home"),
        (("user", "list"), "grace"),
        (("workspace", "list"), " home  default "),
        (("key", "list"), "  read,write,delete,admin  grace  default "),
    ):
        assert shown in said(house, *words)


def test_a_lost_password_is_replaced_and_signs_its_owner_out(house: Running) -> None:
    said(house, "user", "create", "edith")
    password = said(house, "user", "password", "edith").strip()

    with httpx2.Client(base_url=house.url, timeout=30) as http:
        entered = http.post("/login", json={"username": "edith", "password": password})
        inside = http.get("/chat/api/me").status_code
        another = said(house, "user", "password", "edith").strip()
        after = http.get("/chat/api/me").status_code
        again = http.post("/login", json={"username": "edith", "password": another})

    assert (entered.status_code, inside, after, again.status_code) == (204, 200, 401, 204)
    assert refused(house, "user", "password", "nobody") == "recollect: There is no such user.\n"


def test_documents_are_added_listed_and_deleted_beside_a_running_server(
    house: Running, tmp_path: Path
) -> None:
    file = tmp_path / "plover.md"
    file.write_text("# Plover\n\nThe plover nests in March.")

    made = said(house, "document", "add", str(file)).strip()
    listed = said(house, "document", "list")
    gone = said(house, "document", "delete", made)

    assert re.fullmatch(r"cart_\w{24}", made)
    assert made in listed
    assert "plover.md" in listed
    assert gone == "deleted\n"
    assert made not in said(house, "document", "list")
    assert refused(house, "document", "delete", made) == "recollect: There is no such document.\n"
    missing = refused(house, "document", "add", str(tmp_path / "missing"))
    assert missing.endswith("missing` cannot be read: No such file or directory.\n")


def test_what_is_not_there_or_taken_is_said_plainly(house: Running) -> None:
    said(house, "workspace", "create", "research")

    assert refused(house, "workspace", "create", "research") == (
        "recollect: The org has a workspace of that name.\n"
    )
    assert refused(house, "workspace", "archive", "default") == (
        "recollect: The default workspace of an org stays.\n"
    )
    assert refused(house, "project", "invite", "gemini", "admin") == (
        "recollect: There is no such project.\n"
    )
    assert refused(house, "user", "archive", "nobody") == "recollect: There is no such user.\n"
    for words in (("create", "labs", "--embedder", "minilm"), ("embedder", "research", "minilm")):
        assert "No embedder of that name is configured" in refused(house, "workspace", *words)


def test_a_user_is_erased_beside_a_running_server_and_the_receipt_is_checked(
    house: Running, tmp_path: Path
) -> None:
    said(house, "user", "create", "charles")
    key = said(house, "key", "create", "--user", "charles").strip()
    headers = {"X-API-Key": key}
    with httpx2.Client(base_url=house.url, headers=headers, timeout=30) as http:
        http.post("/v1/memories", json={"content": "Charles builds engines"})
        kept = http.get("/v1/memories").status_code

        counted = recollect("erase", "user", "charles", "--data-dir", house.data_dir)
        tried = recollect("erase", "user", "charles", "--dry-run", "--data-dir", house.data_dir)
        done = recollect("erase", "user", "charles", "--yes", "--data-dir", house.data_dir)
        receipt = done.out
        refused_then = http.get("/v1/memories").status_code

    file = tmp_path / "receipt.json"
    file.write_text(receipt)
    forged = tmp_path / "forged.json"
    forged.write_text(receipt.replace('"number": ', '"number": 1'))
    assert (counted.code, counted.out, tried.code, tried.out) == (1, "", 0, "")
    assert "Nothing was removed. Say --yes" in counted.err
    assert done.code == 0
    assert re.fullmatch(r"( +\d+  [a-z_ ]+\n)+", done.err)  # and no line of a log
    assert json.loads(receipt)["counts"]["memory"] == 1
    assert (kept, refused_then) == (200, 401)
    for receipt_of in (str(file), json.loads(receipt)["receipt"]):
        assert "nothing of it is here" in said(house, "verify-erasure", receipt_of)
    assert recollect("verify-erasure", str(forged), "--data-dir", house.data_dir).code == 1
    assert said(house, "erase", "again", str(file), "--yes") == ""
    assert "its hash does not fit" in refused(house, "erase", "again", str(forged), "--yes")
    assert "no receipt" in refused(house, "verify-erasure", str(Path(__file__)))
    assert refused(house, "erase", "user", "charles") == "recollect: There is no such user.\n"


def test_what_is_deleted_is_archived_first(house: Running) -> None:
    said(house, "workspace", "create", "attic")

    assert "Archive the workspace first" in refused(house, "workspace", "delete", "attic", "--yes")
    said(house, "workspace", "archive", "attic")
    assert json.loads(said(house, "workspace", "delete", "attic", "--yes"))["kind"] == "workspace"
    assert "attic" not in said(house, "workspace", "list")
