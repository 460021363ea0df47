"""Limits of client connections: the size and time of a header, and the number of connections."""

import json
import resource
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from recollect.api.connections import MAX_HEADER_BYTES, Connections, Limits, limits_of
from recollect.core.metrics import Metrics
from recollect.core.settings import Settings
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server, serve_chat_endpoint
from tests.support.upstream import Answer, chat_models_at
from tests.support.waiting import wait_until

# Long enough for a busy machine to send a header, short enough to wait for.
TIMEOUT = 0.5
LARGE = Limits(total=100, per_address=100)
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
UNFINISHED = b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-"


@contextmanager
def serving(database_url: str, limits: Limits, **more: Any) -> Generator[LiveServer]:
    with live_server(
        database_url, single_embedder(StubEmbedder()), Clock(), limits=limits, **more
    ) as live:
        yield live


@pytest.fixture(scope="module")
def live(database_url: str) -> Generator[LiveServer]:
    with serving(database_url, LARGE) as found:
        yield found


@pytest.fixture(scope="module")
def impatient(database_url: str) -> Generator[LiveServer]:
    """A server that waits half a second for a header."""
    with serving(database_url, Limits(100, 100, header_seconds=TIMEOUT)) as found:
        yield found


@contextmanager
def connected(live: LiveServer, *sent: bytes) -> Generator[socket.socket]:
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        for each in sent:
            connection.sendall(each)
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    try:
        while part := connection.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def read_one(connection: socket.socket) -> bytes:
    """One response with a declared length."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65_536)
        assert part, received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    [length] = [
        int(field.partition(b":")[2])
        for field in head.split(b"\r\n")
        if field.startswith(b"content-length:")
    ]
    while len(body) < length:
        body += connection.recv(length - len(body))
    return head


def status(response: bytes) -> int:
    return int(response.split()[1]) if response else 0


def ask(live: LiveServer, path: str = "/health/live", key: str = "") -> int:
    head = f"GET {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\nConnection: close\r\n\r\n"
    with connected(live, head.encode()) as connection:
        return status(read_all(connection))


def refusals(live: LiveServer, reason: str) -> float:
    with connected(live, b"GET /metrics HTTP/1.0\r\n\r\n") as connection:
        lines = read_all(connection).decode().splitlines()
    name = f'recollect_refused_connections_total{{reason="{reason}"}} '
    return next((float(each.removeprefix(name)) for each in lines if each.startswith(name)), 0)


BODY = b'{"content": "Ada lives in London"}'


@contextmanager
def open_request(live: LiveServer) -> Generator[socket.socket]:
    """A connection whose request has been received up to its body."""
    head = (
        f"POST /v1/memories HTTP/1.1\r\nHost: a\r\nX-API-Key: {live.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with connected(live, head.encode()) as connection:
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        yield connection


def header_of(size: int) -> bytes:
    start, end = b"GET /health/live HTTP/1.1\r\nConnection: close\r\nX-Long: ", b"\r\n\r\n"
    return start + b"a" * (size - len(start) - len(end)) + end


def test_S61_a_header_of_16_kib_is_read_and_a_longer_one_is_refused(live: LiveServer) -> None:
    sizes = {MAX_HEADER_BYTES: 200, MAX_HEADER_BYTES + 1: 431, 10 * MAX_HEADER_BYTES: 431}
    before = refusals(live, "header_too_large")

    responses: dict[int, bytes] = {}
    for size in sizes:
        with connected(live, header_of(size)) as connection:
            responses[size] = read_all(connection)

    assert {size: status(response) for size, response in responses.items()} == sizes
    refused = responses[MAX_HEADER_BYTES + 1]
    assert b"\r\nconnection: close\r\n" in refused
    assert refused.endswith(b"The header is larger than 16 KiB.")
    assert refusals(live, "header_too_large") == before + 2


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET / HTTP/1.1\r\nX-Long: ",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100,
        b"\r\n" * 100,
        b"POST /v1/memories HTTP/1.1\r\nContent-Length: 1\r\n\r\n1GET / HTTP/1.1\r\nX-Long: ",
    ],
    ids=["request line", "one field", "many fields", "empty lines", "second request"],
)
def test_an_endless_part_of_a_header_is_refused(live: LiveServer, start: bytes) -> None:
    endless = b"\r\n" if start.startswith(b"\r\n") else b"a: b\r\n" if b"a: b" in start else b"a"
    began = time.monotonic()

    with connected(live, start) as connection:
        if start.startswith(b"POST"):
            assert status(read_one(connection)) == 401
        try:
            for _ in range(100):
                connection.sendall(endless * (64 * 1024 // len(endless)))
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            pytest.fail("6 MiB of header were taken")
        response = read_all(connection)

    assert status(response) in {431, 0}  # a reset may overtake the response
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("start", [b"0\r\nX-Long: ", b"1;long="], ids=["trailer", "extension"])
def test_trailers_and_chunk_extensions_are_limited_too(live: LiveServer, start: bytes) -> None:
    head = (
        f"POST /v1/memories HTTP/1.1\r\nX-API-Key: {live.key}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    )

    with (
        connected(live, head.encode(), start) as connection,
        pytest.raises(OSError, match=r"Broken|reset"),
    ):
        for _ in range(100):
            connection.sendall(b"a" * 64 * 1024)


def test_S61_an_unfinished_header_is_refused_after_the_timeout(impatient: LiveServer) -> None:
    before = refusals(impatient, "header_too_late")
    began = time.monotonic()

    with connected(impatient, UNFINISHED) as connection:
        response = read_all(connection)

    assert status(response) == 408
    assert TIMEOUT - 0.1 < time.monotonic() - began < TIMEOUT + 5
    assert refusals(impatient, "header_too_late") == before + 1


def test_single_bytes_do_not_extend_the_timeout(impatient: LiveServer) -> None:
    began = time.monotonic()

    with (
        connected(impatient, UNFINISHED) as connection,
        pytest.raises(OSError, match=r"Broken|reset"),
    ):
        while time.monotonic() - began < 10:
            connection.sendall(b"a")
            time.sleep(TIMEOUT / 10)

    assert time.monotonic() - began < TIMEOUT + 5


def test_a_silent_connection_is_closed_without_a_response(impatient: LiveServer) -> None:
    with connected(impatient) as connection:
        assert read_all(connection) == b""


def test_the_timeout_applies_to_each_request_of_a_connection(impatient: LiveServer) -> None:
    with connected(impatient, HEALTH) as connection:
        first = read_one(connection)
        time.sleep(TIMEOUT + 0.2)  # idle, which has another limit
        connection.sendall(UNFINISHED)
        last = read_all(connection)

    assert (status(first), status(last)) == (200, 408)


def test_the_rest_of_a_refused_body_does_not_keep_a_connection_open(
    impatient: LiveServer,
) -> None:
    began = time.monotonic()

    with connected(
        impatient, b"POST /v1/memories HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"
    ) as connection:
        refused = read_one(connection)
        with pytest.raises(OSError, match=r"Broken|reset"):
            while time.monotonic() - began < 10:
                connection.sendall(b"a")
                time.sleep(TIMEOUT / 10)

    assert status(refused) == 401
    assert time.monotonic() - began < TIMEOUT + 5


def test_a_kept_connection_continues_to_be_served(impatient: LiveServer) -> None:
    with connected(impatient) as connection:
        for pause in (0.0, 0.0, TIMEOUT * 1.2, 0.0):
            time.sleep(pause)
            head, tail = HEALTH[:20], HEALTH[20:]
            connection.sendall(head)
            time.sleep(0.05)
            connection.sendall(tail)
            assert status(read_one(connection)) == 200


def test_an_upload_may_take_longer_than_a_header(impatient: LiveServer) -> None:
    fields = {"category": "GLOBAL", "key": "a picture", "value": "of London"}
    made = json.dumps(fields).encode()
    start = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n"
    )
    file, end = b"a" * 1024 * 1024, b"\r\n--x--\r\n"
    common = f"Host: a\r\nAuthorization: Bearer {impatient.key}\r\n"

    with connected(impatient) as connection:
        connection.sendall(
            f"POST /api/v1/memories HTTP/1.1\r\n{common}Content-Type: application/json\r\n"
            f"Content-Length: {len(made)}\r\nConnection: close\r\n\r\n".encode()
            + made
        )
        memory = json.loads(read_all(connection).partition(b"\r\n\r\n")[2])["data"]["id"]
    with connected(impatient) as connection:
        connection.sendall(
            f"POST /api/v1/memories/{memory}/assets HTTP/1.1\r\n{common}"
            "Content-Type: multipart/form-data; boundary=x\r\nConnection: close\r\n"
            f"Content-Length: {len(start) + len(file) + len(end)}\r\n\r\n".encode()
            + start
        )
        for at in range(0, len(file), len(file) // 8):
            connection.sendall(file[at : at + len(file) // 8])
            time.sleep(TIMEOUT / 4)
        connection.sendall(end)
        response = read_all(connection)

    assert status(response) == 201, response


def test_a_stream_may_take_longer_than_a_header(database_url: str) -> None:
    limits = Limits(100, 100, header_seconds=TIMEOUT)
    with (
        serve_chat_endpoint() as endpoint,
        serving(database_url, limits, chats=chat_models_at(endpoint.url)) as live,
    ):
        endpoint.script = [Answer("one two three four five six", pause=TIMEOUT / 4)]
        asked = json.dumps(
            {"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Count"}]}
        )
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {live.key}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(asked)}\r\n\r\n"
        )
        began = time.monotonic()
        with connected(live, head.encode() + asked.encode()) as connection:
            response = read_all(connection)

    assert time.monotonic() - began > TIMEOUT
    assert b"data: [DONE]" in response


def closed_connections(connections: Sequence[socket.socket]) -> list[int]:
    """The positions of the connections that the server has closed."""
    found: list[int] = []
    for number, connection in enumerate(connections):
        connection.setblocking(False)
        try:
            if not connection.recv(1):
                found.append(number)
        except BlockingIOError:
            pass
        except ConnectionResetError:
            found.append(number)
        connection.settimeout(10)
    return found


@pytest.mark.parametrize(
    "limits", [Limits(total=100, per_address=4), Limits(total=4, per_address=100)]
)
def test_new_connections_replace_waiting_ones(database_url: str, limits: Limits) -> None:
    with serving(database_url, limits) as live, ExitStack() as stack:
        connections = [stack.enter_context(connected(live, UNFINISHED)) for _ in range(4)]
        responses = [ask(live), ask(live, "/v1/memories", live.key)]
        wait_until(lambda: closed_connections(connections) == [0])
        # One that finishes its header in time is served.
        connections[3].sendall(b"a: b\r\n\r\n")

        assert responses == [200, 200]
        assert status(read_one(connections[3])) == 200
        assert refusals(live, "displaced") == 1


def test_new_connections_replace_idle_ones(database_url: str) -> None:
    with serving(database_url, Limits(total=100, per_address=2)) as live, ExitStack() as stack:
        connections = [stack.enter_context(connected(live, HEALTH)) for _ in range(2)]
        assert [status(read_one(connection)) for connection in connections] == [200, 200]

        assert ask(live) == 200
        wait_until(lambda: closed_connections(connections) == [0])


@pytest.mark.parametrize(
    "limits", [Limits(total=100, per_address=3), Limits(total=3, per_address=100)]
)
def test_health_is_answered_while_every_connection_is_in_use(
    database_url: str, limits: Limits
) -> None:
    with serving(database_url, limits) as live, ExitStack() as stack:
        connections = [stack.enter_context(open_request(live)) for _ in range(3)]

        with connected(live, HEALTH) as connection:
            health = read_all(connection)
        refused = ask(live, "/v1/memories", live.key)
        near = ask(live, "/healthy")
        for connection in connections:
            connection.sendall(BODY)
        saved = [status(read_one(connection)) for connection in connections]

        assert status(health) == 200
        assert b"\r\nconnection: close\r\n" in health
        assert (refused, near) == (503, 503)
        assert saved == [201, 201, 201]
        for connection in connections:
            connection.close()
        wait_until(lambda: ask(live, "/v1/memories", live.key) == 200)
        assert refusals(live, "too_many") == 2


def test_connections_beyond_the_reserve_are_closed(database_url: str) -> None:
    limits = Limits(total=2, per_address=100, reserve=0)
    with serving(database_url, limits) as live, ExitStack() as stack:
        connections = [stack.enter_context(open_request(live)) for _ in range(2)]

        with connected(live) as connection:
            assert read_all(connection) == b""

        for connection in connections:
            connection.close()
        wait_until(lambda: ask(live) == 200)
        assert refusals(live, "no_room") == 1


def test_a_proxy_has_no_limit_per_address(database_url: str) -> None:
    limits = Limits(total=100, per_address=1, proxies=frozenset({"127.0.0.1"}))
    with serving(database_url, limits) as live, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(open_request(live))

        assert ask(live, "/v1/memories", live.key) == 200


def test_a_few_pipelined_requests_are_answered_and_many_are_not(live: LiveServer) -> None:
    with connected(live, HEALTH * 10) as connection:
        few = [status(read_next(connection)) for _ in range(10)]
    with connected(live, HEALTH * 400) as connection:
        many = read_all(connection)

    assert few == [200] * 10
    assert many.count(b"HTTP/1.1 200") < 20
    assert b"HTTP/1.1 400" not in many
    assert refusals(live, "pipelined") == 1


def read_next(connection: socket.socket) -> bytes:
    """The next response, read byte by byte so that the following ones stay in the buffer."""
    response = b""
    while not response.endswith(b'{"status":"ok"}'):
        response += connection.recv(1)
    return response


def test_refusals_are_logged_once_and_counted(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(database_url, Limits(100, 100)) as live:
        for _ in range(5):
            with connected(live, header_of(MAX_HEADER_BYTES + 1)) as connection:
                assert status(connection.recv(100)) == 431
        counted = refusals(live, "header_too_large")

    written = capsys.readouterr()
    assert (written.out + written.err).count("connection.refused") == 1
    assert counted == 5


def test_open_connections_are_measured(live: LiveServer) -> None:
    with (
        connected(live, UNFINISHED),
        connected(live, b"GET /metrics HTTP/1.0\r\n\r\n") as connection,
    ):
        lines = read_all(connection).decode().splitlines()

    measured = dict(
        each.rsplit(" ", 1) for each in lines if each.startswith("recollect_connections{")
    )
    waiting, opened = (
        float(measured[f'recollect_connections{{state="{each}"}}']) for each in ("waiting", "open")
    )
    assert 1 <= waiting < opened


@pytest.mark.parametrize(
    ("files", "wanted", "expected"),
    [
        (1_024, 256, (443, 256)),
        (1_024, 400, (443, 332)),
        (1_024, 0, (443, 332)),
        (256, 256, (59, 44)),
        (64, 256, (32, 24)),
        (1_048_576, 256, (4_096, 256)),
        (resource.RLIM_INFINITY, 256, (4_096, 256)),
    ],
)
def test_the_limits_fit_the_number_of_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, wanted: int, expected: tuple[int, int]
) -> None:
    def getrlimit(_: int) -> tuple[int, int]:
        return files, files

    monkeypatch.setattr(resource, "getrlimit", getrlimit)

    found = limits_of(Settings(connections_per_address=wanted))

    assert (found.total, found.per_address) == expected


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_an_ipv6_network_counts_as_one_address(one: str, other: str, *, is_same: bool) -> None:
    connections = Connections(LARGE, Metrics())

    counted = [
        connections._address(SimpleNamespace(client=(each, 1)))  # type: ignore[arg-type]
        for each in (one, other)
    ]

    assert (counted[0] == counted[1]) is is_same


def test_a_unix_socket_counts_as_no_address() -> None:
    connection: Any = SimpleNamespace(client=None)

    assert Connections(LARGE, Metrics())._address(connection) is None
