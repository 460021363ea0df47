"""`recollect serve` and `recollect work`: start, stop, and errors that prevent a start."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cli_support import FASTER, interrupt_once, processes, recollect

from recollect.embedded import attach
from tests.support.serve_process import ServeProcess, running_server


@pytest.fixture(scope="module")
def first() -> Iterator[ServeProcess]:
    """A new instance."""
    with running_server(**FASTER) as running:
        yield running


def test_S06_the_first_run_prints_address_and_credentials_once(first: ServeProcess) -> None:
    output = first.output

    assert f"Recollect is ready at {first.url}\n" in output
    assert len(re.findall(r"^  sign in   admin / \S{16}$", output, re.MULTILINE)) == 1
    assert len(re.findall(r"^  API key   rk_[0-9a-f]{8}_\S{43}$", output, re.MULTILINE)) == 1
    with first.client() as http:
        assert http.get("/v1/memories").status_code == 200


def test_a_connection_is_accepted_as_soon_as_the_server_says_ready(first: ServeProcess) -> None:
    first.stop()
    command = [sys.executable, "-m", "recollect", "serve", "--data-dir", str(first.data_dir)]
    with subprocess.Popen(
        [*command, "--port", str(first.port)],
        stdout=subprocess.PIPE,
        env=first.environment | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    ) as process:
        assert process.stdout
        try:
            assert process.stdout.readline().startswith(b"Recollect is ready at ")
            with socket.create_connection(("127.0.0.1", first.port), timeout=30) as caller:
                caller.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert caller.recv(12) == b"HTTP/1.1 200"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    first.start()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_S06_a_signal_stops_it_and_a_restart_prints_no_credentials(
    first: ServeProcess, by: signal.Signals
) -> None:
    assert first.process
    assert processes(first.data_dir)

    began = time.monotonic()
    first.process.send_signal(by)
    code = first.process.wait(30)
    took = time.monotonic() - began
    remained = processes(first.data_dir)
    first.start()  # for the tests after this one

    assert (code, remained) == (0, [])
    assert took < 10
    assert "Traceback" not in first.output
    # S06: later starts print no credentials.
    assert first.output.count("API key") == first.output.count("sign in") == 1
    assert first.output.count(first.key) == 1


def test_S53_a_local_process_cannot_fake_its_client_address(first: ServeProcess) -> None:
    with first.client() as http:
        tries = [
            http.post(
                "/login",
                json={"username": f"nobody {number}", "password": "wrong"},
                headers={"x-forwarded-for": f"203.0.113.{number}"},
            ).status_code
            for number in range(31)
        ]

    assert tries == [401] * 30 + [429]


def test_bytes_that_are_not_http_are_not_logged(first: ServeProcess) -> None:
    with socket.create_connection(("127.0.0.1", first.port)) as client:
        client.sendall(b"\x16\x03\x01 is no HTTP\r\n\r\n")
        answer = client.makefile("rb").readline()

    assert answer.startswith(b"HTTP/1.1 400")
    assert "Invalid HTTP" not in first.output


def test_a_second_serve_on_the_same_directory_names_the_running_process(
    instance: ServeProcess,
) -> None:
    assert instance.process

    refused = recollect("serve", "--port", 0, "--data-dir", instance.data_dir)

    assert refused.code == 1
    assert refused.err == (
        f"recollect: `recollect serve` already runs on `{instance.data_dir}` (process "
        f"{instance.process.pid}). Stop it or choose another `--data-dir`.\n"
    )


def test_a_port_in_use_is_reported_before_anything_is_created(workdir: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        refused = recollect("serve", "--port", port, "--data-dir", workdir / "data")

    assert (refused.code, refused.out) == (1, "")
    assert f"Cannot listen on `127.0.0.1:{port}`" in refused.err
    assert "Stop the program that uses it or choose another `--port`." in refused.err
    assert not (workdir / "data").exists()


def test_an_address_of_another_machine_is_rejected_with_a_hint(workdir: Path) -> None:
    # 192.0.2.0/24 is reserved for documentation: no machine has it.
    refused = recollect("serve", "--host", "192.0.2.1", "--data-dir", workdir / "data")

    assert (refused.code, refused.out) == (1, "")
    assert "Set `--host` to an address of this machine" in refused.err


def test_S101_serving_other_machines_prints_that_it_needs_https() -> None:
    with running_server(**FASTER, RECOLLECT_HOST="0.0.0.0") as server:
        output = server.output

    assert "Other machines can reach it over plain http: put an https proxy in front" in output


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_stops_without_errors_on_a_signal(restored: Path, by: signal.Signals) -> None:
    with attach(restored) as attached:
        before = _listeners(attached.admin_url)

        ended = interrupt_once(
            lambda: _listeners(attached.admin_url) > before, "work", "--data-dir", restored, by=by
        )

    assert (ended.code, ended.out, ended.err) == (0, "Working. Stop with Ctrl-C.\n", "")


def _listeners(url: str) -> int:
    with psycopg.connect(url) as db:
        rows = db.execute("SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").fetchall()
    return len(rows)


def test_S101_a_misspelt_setting_is_reported_with_the_right_name() -> None:
    refused = recollect("serve", RECOLLECT_DATABSE_URL="postgresql://elsewhere/x")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "recollect: The environment variable `RECOLLECT_DATABSE_URL` is not a Recollect setting. "
        "Did you mean `database_url`?\n"
    )


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound, but not listening
        port = silent.getsockname()[1]

        refused = recollect(
            "serve", "--port", 0, DATABASE_URL=f"postgresql://ada:s3cret@127.0.0.1:{port}/instance"
        )

    assert (refused.code, refused.out) == (1, "")
    assert f"port {port} failed: Connection refused" in refused.err
    assert f"`postgresql://ada:***@127.0.0.1:{port}/instance`" in refused.err
    assert "s3cret" not in refused.err
    assert refused.err.count("\n") == 1
