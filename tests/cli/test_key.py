"""`recollect key`: made, shown once, and ended, beside a running server and without one."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cli_support import recollect

from tests.support.running import Running
from tests.support.waiting import wait_until

KEY = re.compile(r"rk_[0-9a-f]{8}_[\w-]{43}\n")


def new_key(house: Running, *arguments: object) -> str:
    made = recollect("key", "create", *arguments, "--data-dir", house.data_dir)
    assert made.code == 0, made.err
    assert KEY.fullmatch(made.out)
    assert made.err == ""
    return made.out.strip()


def status(house: Running, key: str, method: str = "GET") -> int:
    body = {"content": "a note"} if method == "POST" else None
    headers = {"X-API-Key": key}
    return httpx2.request(
        method, f"{house.url}/v1/memories", json=body, headers=headers, timeout=30
    ).status_code


def test_a_key_made_beside_a_running_server_opens_it_until_it_is_revoked(house: Running) -> None:
    key = new_key(house, "--name", "laptop")
    before = status(house, key)

    revoked = recollect("key", "revoke", key[:11], "--data-dir", house.data_dir)

    assert before == 200
    assert (revoked.code, revoked.out) == (0, "1 revoked\n")
    wait_until(lambda: status(house, key) == 401, seconds=1)  # S24: by notification, not by age


def test_a_key_can_do_what_its_rights_say(house: Running) -> None:
    key = new_key(house, "--rights", "read")

    assert status(house, key) == 200
    assert status(house, key, "POST") == 403


def test_a_key_ends_when_it_was_said_to(house: Running) -> None:
    for seconds in (3, 10, 30):  # a busy machine may take longer to make the key than it lives
        ends = datetime.now(UTC) + timedelta(seconds=seconds)
        made = recollect(
            "key", "create", "--expires", ends.isoformat(), "--data-dir", house.data_dir
        )
        key = made.out.strip()
        if made.code == 0 and status(house, key) == 200:
            break
    else:
        pytest.fail("no key lived long enough to be used")

    wait_until(lambda: status(house, key) == 401, seconds=31)

    assert datetime.now(UTC) >= ends


def test_the_list_shows_every_key_and_no_keys_text(house: Running) -> None:
    key = new_key(house, "--name", "a name that is longer than its column")

    listed = recollect("key", "list", "--data-dir", house.data_dir)

    assert listed.code == 0
    assert f"{key[:11]}..{key[-4:]}" in listed.out
    assert "a name that is longer than its column  read,write,delete,admin" in listed.out
    assert key[12:-4] not in listed.out
    assert house.key[12:-4] not in listed.out


def test_no_file_of_the_house_holds_the_text_of_a_key(house: Running) -> None:
    key = new_key(house)
    secrets = [key[12:].encode(), house.key[12:].encode()]

    files = [each for each in house.data_dir.rglob("*") if each.is_file()]
    told = [each for each in files if any(secret in each.read_bytes() for secret in secrets)]

    assert len(files) > 100
    assert told == []


def test_what_is_not_there_cannot_be_revoked(house: Running) -> None:
    refused = recollect("key", "revoke", "nobody", "--data-dir", house.data_dir)

    assert (refused.code, refused.err) == (1, "recollect: There is no such key.\n")


def test_a_key_for_a_workspace_that_is_not_there_is_refused(house: Running) -> None:
    refused = recollect("key", "create", "--workspace", "atlantis", "--data-dir", house.data_dir)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "recollect: There is no such workspace.\n"


def test_whoever_only_looks_around_makes_no_house(desk: Path) -> None:
    for words in (("key", "list"), ("user", "list"), ("jobs", "list"), ("learn", "waiting")):
        refused = recollect(*words, "--data-dir", desk / "typo")

        assert (refused.code, refused.out) == (1, "")
        assert "There is no house in" in refused.err
    assert not (desk / "typo").exists()


def test_a_key_made_in_an_empty_place_moves_in_first(desk: Path) -> None:
    made = recollect("key", "create", "--data-dir", desk / "data")

    assert made.code == 0
    assert KEY.fullmatch(made.out)
    assert re.fullmatch(r"first sign-in: admin / \S{16}\n", made.err)
