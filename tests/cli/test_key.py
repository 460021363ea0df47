"""`recollect key`: create, show once and revoke, with and without a running server."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cli_support import recollect

from tests.support.serve_process import ServeProcess
from tests.support.waiting import wait_until

KEY = re.compile(r"rk_[0-9a-f]{8}_[\w-]{43}\n")


def new_key(instance: ServeProcess, *arguments: object) -> str:
    made = recollect("key", "create", *arguments, "--data-dir", instance.data_dir)
    assert made.code == 0, made.err
    assert KEY.fullmatch(made.out)
    assert made.err == ""
    return made.out.strip()


def status(instance: ServeProcess, key: str, method: str = "GET") -> int:
    body = {"content": "a note"} if method == "POST" else None
    headers = {"X-API-Key": key}
    return httpx2.request(
        method, f"{instance.url}/v1/memories", json=body, headers=headers, timeout=30
    ).status_code


def test_a_new_key_works_on_a_running_server_until_revoked(instance: ServeProcess) -> None:
    key = new_key(instance, "--name", "laptop")
    before = status(instance, key)

    revoked = recollect("key", "revoke", key[:11], "--data-dir", instance.data_dir)

    assert before == 200
    assert (revoked.code, revoked.out) == (0, "1 revoked\n")
    wait_until(
        lambda: status(instance, key) == 401, seconds=1
    )  # S24: by notification, not by expiry of a cache


def test_a_key_has_only_its_rights(instance: ServeProcess) -> None:
    key = new_key(instance, "--rights", "read")

    assert status(instance, key) == 200
    assert status(instance, key, "POST") == 403


def test_a_key_expires_at_the_given_time(instance: ServeProcess) -> None:
    for seconds in (3, 10, 30):  # on a busy machine a key may expire before it is created
        ends = datetime.now(UTC) + timedelta(seconds=seconds)
        made = recollect(
            "key", "create", "--expires", ends.isoformat(), "--data-dir", instance.data_dir
        )
        key = made.out.strip()
        if made.code == 0 and status(instance, key) == 200:
            break
    else:
        pytest.fail("every key expired before it could be used")

    wait_until(lambda: status(instance, key) == 401, seconds=31)

    assert datetime.now(UTC) >= ends


def test_S21_the_list_shows_every_key_without_its_secret(instance: ServeProcess) -> None:
    key = new_key(instance, "--name", "a name that is longer than its column")

    listed = recollect("key", "list", "--data-dir", instance.data_dir)

    assert listed.code == 0
    assert f"{key[:11]}..{key[-4:]}" in listed.out
    assert "a name that is longer than its column  read,write,delete,admin" in listed.out
    assert key[12:-4] not in listed.out
    assert instance.key[12:-4] not in listed.out


def test_S20_no_file_of_the_instance_contains_a_key(instance: ServeProcess) -> None:
    key = new_key(instance)
    secrets = [key[12:].encode(), instance.key[12:].encode()]

    files = [each for each in instance.data_dir.rglob("*") if each.is_file()]
    leaking = [each for each in files if any(secret in each.read_bytes() for secret in secrets)]

    assert len(files) > 100
    assert leaking == []


def test_an_unknown_key_cannot_be_revoked(instance: ServeProcess) -> None:
    refused = recollect("key", "revoke", "nobody", "--data-dir", instance.data_dir)

    assert (refused.code, refused.err) == (1, "recollect: There is no such key.\n")


def test_a_key_for_an_unknown_workspace_is_rejected(instance: ServeProcess) -> None:
    refused = recollect("key", "create", "--workspace", "atlantis", "--data-dir", instance.data_dir)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "recollect: There is no such workspace.\n"


def test_commands_that_only_read_do_not_create_an_instance(workdir: Path) -> None:
    for words in (("key", "list"), ("user", "list"), ("jobs", "list"), ("learn", "waiting")):
        refused = recollect(*words, "--data-dir", workdir / "typo")

        assert (refused.code, refused.out) == (1, "")
        assert "There is no Recollect data in" in refused.err
    assert not (workdir / "typo").exists()


def test_creating_a_key_without_an_instance_creates_one(workdir: Path) -> None:
    made = recollect("key", "create", "--data-dir", workdir / "data")

    assert made.code == 0
    assert KEY.fullmatch(made.out)
    assert re.fullmatch(r"first sign-in: admin / \S{16}\n", made.err)
