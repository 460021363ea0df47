"""`recollect org`, `user`, `workspace`, `project` and `agent`, beside a running server."""

import re

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
        (("workspace", "list"), "default"),
        (("project", "list"), "apollo"),
        (("agent", "list"), "scribe"),
    ):
        assert shown in said(house, *words)


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
