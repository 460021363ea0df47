"""Malformed and hostile input: refused in the interface's own error format, without side effects."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest

from recollect.api import gateway, strict_json
from recollect.api.gateway import MIB
from recollect.core.errors import Invalid
from recollect.engine import Engine
from recollect.server import Server
from tests.support.instance import ApiClient, connect, make_server
from tests.support.statebase import create_memory, error_body, error_of, list_texts, open_session

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
INVALID = (400, "invalid_request", None)


def deep(levels: int, inner: str = "1") -> str:
    return "[" * levels + inner + "]" * levels


def with_metadata(value: str) -> bytes:
    return b'{"content": "Ada", "metadata": {"v": %s}}' % value.encode()


INVALID_BODIES: dict[str, bytes] = {
    "NUL in a text": b'{"content": "A\\u0000da"}',
    "NUL in a key of metadata": b'{"content": "Ada", "metadata": {"a\\u0000": 1}}',
    "NUL deep in metadata": with_metadata('[[{"a": ["\\u0000"]}]]'),
    "NUL in a tag": b'{"content": "Ada", "tags": ["a\\u0000"]}',
    "NUL in an unknown field": b'{"content": "Ada", "unknown": "\\u0000"}',
    "raw NUL": b'{"content": "A\0da"}',
    "raw control character": b'{"content": "A\x01da"}',
    "high surrogate": b'{"content": "\\ud800"}',
    "low surrogate": b'{"content": "\\udc00"}',
    "surrogates the wrong way round": b'{"content": "\\udc00\\ud83d"}',
    "surrogate in capitals": b'{"content": "\\uD800"}',
    "surrogate in a key": b'{"content": "Ada", "metadata": {"\\ud800": 1}}',
    "surrogate as UTF-8": b'{"content": "\xed\xa0\x80"}',
    "invalid UTF-8": b'{"content": "\xff\xfe"}',
    "cut UTF-8": b'{"content": "\xf0\x9f\x90"}',
    "UTF-16": '{"content": "Ada"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"content": "Ada"}',
    "NaN": with_metadata("NaN"),
    "Infinity": with_metadata("Infinity"),
    "minus Infinity": with_metadata("-Infinity"),
    "1e999": with_metadata("1e999"),
    "-1e999": with_metadata("-1e999"),
    "2**63": with_metadata(str(2**63)),
    "-2**63 - 1": with_metadata(str(-(2**63) - 1)),
    "2**64": with_metadata(str(2**64)),
    "5,000 digits": with_metadata("9" * 5_000),
    "5,000 digits with a point": with_metadata("9" * 5_000 + ".5"),
    "65 levels": b'{"metadata": %s}' % deep(64).encode(),
    "65 levels of objects": b'{"a":' * 65 + b"1" + b"}" * 65,
    "100,000 levels": deep(100_000).encode(),
    "100,000 levels, never closed": b"[" * 100_000,
    "a key twice": b'{"content": "Ada", "content": "Grace"}',
    "a key twice, deep": with_metadata('{"a": 1, "a": 2}'),
    "an array": b'[{"content": "Ada"}]',
    "a text": b'"Ada"',
    "null": b"null",
    "a number": b"1",
    "true": b"true",
    "nothing": b"",
    "spaces": b"  ",
    "two values": b'{"content": "Ada"} {}',
    "a comma too many": b'{"content": "Ada",}',
    "single quotes": b"{'content': 'Ada'}",
    "a form": b"content=Ada",
}


async def visible_data(http: httpx2.AsyncClient) -> list[Any]:
    """Everything that a caller can see in a workspace."""
    paths = ("/v1/memory", "/v1/sessions", "/v1/traces")
    return [(await http.get(path, params={"limit": 100})).json() for path in paths]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/memory"),
        ("POST", "/v1/memories"),
        ("POST", "/v1/memory/search"),
        ("PATCH", "/v1/memory/{memory}"),
        ("PUT", "/v1/memories/{memory}"),
        ("POST", "/v1/sessions"),
        ("POST", "/v1/sessions/{session}/context"),
        ("PATCH", "/v1/sessions/{session}/state"),
        ("PUT", "/v1/sessions/{session}/state"),
        ("POST", "/v1/sessions/{session}/turns"),
        ("POST", "/v1/sessions/{session}/rollback"),
        ("POST", "/v1/sessions/{session}/fork"),
    ],
)
async def test_S61_an_invalid_body_is_refused_and_changes_nothing(
    client: ApiClient, method: str, path: str
) -> None:
    session = await open_session(client.http)
    memory = await create_memory(client.http, "Grace lives in New York", session)
    address = path.format(session=session["id"], memory=memory["id"])
    before = await visible_data(client.http)
    may_be_empty = {"nothing", "null"} if path.endswith(("context", "fork")) else set[str]()

    responses = {
        name: await client.http.request(method, address, content=body, headers=JSON)
        for name, body in INVALID_BODIES.items()
        if name not in may_be_empty
    }

    refused = {name: error_of(response) for name, response in responses.items()}
    assert refused == dict.fromkeys(responses, INVALID)
    assert await visible_data(client.http) == before


UNUSUAL_BUT_VALID = [
    '{"content": "a pair: \\ud83d\\udc18", "metadata": {"\\u00e9": "\\u0001\\u001f"}}',
    '{"content": "a backslash: \\\\u0000 \\\\ud800"}',
    f'{{"content": "Ada", "metadata": {{"v": {deep(62)}}}}}',
    f'{{"content": "Ada", "metadata": {{"v": {deep(62, "")}, "w": [[], {{}}]}}}}',
    f'{{"content": "Ada", "metadata": {{"max": {2**63 - 1}, "min": {-(2**63)}}}}}',
    '{"content": "Ada", "metadata": {"big": 1.7976931348623157e308, "small": -0.0}}',
    '{"content": "\\u202e\\ufeff\\u200d right to left and invisible"}',
    json.dumps({"content": "Ada", "tags": [f"tag {n}" for n in range(100)]}),
    json.dumps({"content": "Ada", "metadata": {f"key {n}": [[n]] * 9 for n in range(200)}}),
]


async def test_unusual_but_valid_bodies_are_stored_unchanged(client: ApiClient) -> None:
    for body in UNUSUAL_BUT_VALID:
        response = await client.http.post("/v1/memories", content=body.encode(), headers=JSON)

        memory = response.json()
        assert response.status_code == 201, response.text
        assert {name: memory[name] for name in json.loads(body)} == json.loads(body)
        assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


FORMATS = {
    "text/plain": 415,
    "application/x-www-form-urlencoded": 415,
    "multipart/form-data; boundary=x": 415,
    "application/xml": 415,
    "json": 415,
    "": 415,
    "application/json": 201,
    "Application/JSON; charset=UTF-8": 201,
    "application/vnd.api+json": 201,
}


async def test_S32_a_body_that_is_not_json_is_refused(client: ApiClient) -> None:
    responses = {
        each: await client.http.post(
            "/v1/memories", content=b'{"content": "Ada"}', headers={"content-type": each}
        )
        for each in FORMATS
    }

    assert {each: response.status_code for each, response in responses.items()} == FORMATS
    refusal = error_body("invalid_request", "The body must be `application/json`.")
    refused = [each.json() for each in responses.values() if each.status_code == 415]
    assert refused == [refusal] * 6
    assert await list_texts(client.http) == ["Ada"] * 3


async def test_a_body_without_a_content_type_is_refused(client: ApiClient) -> None:
    response = await client.http.post("/v1/memories", content=b'{"content": "Ada"}')

    assert "content-type" not in response.request.headers
    assert error_of(response) == (415, "invalid_request", None)


class ChunkedBody:
    """A body that arrives in pieces, and counts how many were read."""

    def __init__(self, pieces: int, size: int = 64 * 1024) -> None:
        self.pieces = pieces
        self.size = size
        self.read_count = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            self.read_count += 1
            yield b" " * self.size


@pytest.mark.parametrize("declared", [None, "10", str(10**12)])
async def test_S60_a_body_over_a_mebibyte_is_refused_without_reading_it_all(
    client: ApiClient, declared: str | None
) -> None:
    body = ChunkedBody(pieces=10_000)
    headers = JSON if declared is None else {**JSON, "content-length": declared}

    response = await client.http.post("/v1/memories", content=body, headers=headers)

    assert response.status_code == 413
    assert response.json() == error_body(
        "payload_too_large", "`body` may have at most 1,048,576 bytes.", param="body"
    )
    assert body.read_count == MIB // body.size + 1
    assert await list_texts(client.http) == []


async def test_a_body_of_exactly_a_mebibyte_is_accepted(client: ApiClient) -> None:
    body = b'{"content": "Ada", "ignored": "%s"}'
    body %= b"a" * (MIB - len(body) + 2)

    responses = [
        await client.http.post("/v1/memories", content=each, headers=JSON)
        for each in (body, body + b" ")
    ]

    assert len(body) == MIB
    assert [response.status_code for response in responses] == [201, 413]


@pytest.mark.parametrize("method", ["DELETE", "GET"])
async def test_an_unexpected_body_is_limited_too(client: ApiClient, method: str) -> None:
    body = ChunkedBody(pieces=10_000)

    response = await client.http.request(method, "/v1/memory/mem_aaaaaaaaaaaa", content=body)

    assert error_of(response) == (413, "payload_too_large", "body")
    assert body.read_count == MIB // body.size + 1


async def test_the_body_of_an_unauthenticated_request_is_not_read(server: Server) -> None:
    body = ChunkedBody(pieces=10)

    async with connect(server) as http:
        response = await http.post("/v1/memories", content=body, headers=JSON)

    assert response.status_code == 401
    assert body.read_count == 0


async def test_S60_S61_an_endless_body_is_cut_off(
    client: ApiClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_BODY_SECONDS", 0.01)

    response, _ = await raw_request(server, client, pieces=[b'{"content": '], ends=False)

    assert error_of(response) == INVALID
    assert response.json()["error"]["message"] == "The body did not arrive in time."


@pytest.mark.parametrize(
    ("min_rate", "found"),
    [(1_000, "The body did not arrive in time."), (10, "This is not an export of Recollect")],
)
async def test_S60_a_file_below_the_minimum_rate_is_cut_off(
    client: ApiClient,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    min_rate: int,
    found: str,
) -> None:
    monkeypatch.setattr(gateway, "_BODY_SECONDS", 0.3)
    monkeypatch.setattr(gateway, "_MIN_BYTES_PER_SECOND", min_rate)
    start = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    headers = {
        "authorization": f"Bearer {client.key}",
        "content-type": "multipart/form-data; boundary=x",
    }

    response, _ = await raw_request(
        server,
        client,
        path="/api/v1/import",
        headers=headers,
        # Each part on its own arrives in time.
        pieces=[start, *[b"\n\n"] * 15, b"\r\n--x--\r\n"],
        pause=0.05,
    )

    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(found)


async def test_a_client_that_disconnects_early_stores_nothing(
    client: ApiClient, server: Server
) -> None:
    response, _ = await raw_request(
        server, client, pieces=[b'{"content": "Ada"}'], disconnects=True
    )

    assert error_of(response) == INVALID
    assert await list_texts(client.http) == []


async def raw_request(
    server: Server,
    client: ApiClient,
    *,
    pieces: list[bytes],
    ends: bool = True,
    disconnects: bool = False,
    path: str = "/v1/memories",
    query: bytes = b"",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    pause: float = 0,
) -> tuple[httpx2.Response, list[Any]]:
    """Send a request that an HTTP library would not send."""
    sent: list[Any] = []
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if disconnects:
        messages.append({"type": "http.disconnect"})
    elif ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        if messages:
            await asyncio.sleep(pause)
            return messages.pop(0)
        await wait_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [
            (name.encode(), value.encode())
            for name, value in (headers or {"x-api-key": client.key, **JSON}).items()
        ],
        "client": ("127.0.0.1", 50_000),
        "scheme": "http",
        "server": ("recollect.test", 80),
        "root_path": "",
    }
    await server.app(scope, receive, send)
    body = b"".join(each.get("body", b"") for each in sent[1:])
    return httpx2.Response(sent[0]["status"], headers=sent[0]["headers"], content=body), sent


async def wait_forever() -> None:
    await asyncio.Event().wait()


async def test_S61_a_nul_in_the_url_is_refused(client: ApiClient) -> None:
    paths = [
        "/v1/memory/mem_%00aaaaaaaaaaa",
        "/v1/memory/%00",
        "/v1/sessions/sess_aaaaaaaa%00/state",
        "/v1/traces/%00",
        "/v1/memory?user_id=a%00b",
        "/v1/memory?session_id=%00",
        "/v1/memory?starting_after=%00",
        "/v1/memories?query=%00",
        "/v1/memories?tags=a,%00",
        "/v1/traces?action=%00",
        "/v1/sessions?agent_id=%00",
        "/v1/memory?unknown=%00",
    ]

    responses = {each: await client.http.get(each) for each in paths}

    expected = 400, error_body("invalid_request", "The URL contains a NUL character.")
    found = {each: (response.status_code, response.json()) for each, response in responses.items()}
    assert found == dict.fromkeys(paths, expected)


@pytest.mark.parametrize("letters", [b"%FF%FE", b"%ED%A0%80", b"%C0%80", b"%F0%9F%90"])
async def test_invalid_utf_8_in_the_url_finds_nothing(
    client: ApiClient, server: Server, letters: bytes
) -> None:
    await create_memory(client.http, "Ada lives in London")

    listing, _ = await raw_request(
        server, client, pieces=[], method="GET", path="/v1/memory", query=b"user_id=" + letters
    )
    one = await client.http.get("http://recollect.test/v1/memory/" + letters.decode())

    assert (listing.status_code, listing.json()["data"]) == (200, [])
    assert error_of(one) == (404, "memory_not_found", None)


async def test_S61_a_path_that_is_too_long_is_refused(client: ApiClient) -> None:
    address = "/v1/memory/" + "é" * 5_000

    responses = [
        await client.http.get(address),
        await client.http.delete(address, headers={"Idempotency-Key": "a"}),
    ]

    expected = error_body("invalid_request", "The path is longer than 500 characters.")
    assert [(each.status_code, each.json()) for each in responses] == [(400, expected)] * 2


METHODS = {
    ("PATCH", "/v1/memory"): "GET, POST",
    ("DELETE", "/v1/memories"): "GET, POST",
    ("POST", "/v1/memory/mem_aaaaaaaaaaaa"): "GET, PATCH, DELETE",
    ("POST", "/v1/memories/mem_aaaaaaaaaaaa"): "GET, PUT, PATCH, DELETE",
    ("DELETE", "/v1/sessions/sess_aaaaaaaaaaaa/state"): "GET, POST, PUT, PATCH",
    ("GET", "/v1/sessions/sess_aaaaaaaaaaaa/context"): "POST",
    ("POST", "/v1/traces"): "GET",
    ("OPTIONS", "/v1/memory"): "GET, POST",
    ("BREW", "/v1/memory"): "GET, POST",
}


async def test_a_wrong_method_gets_the_list_of_allowed_ones(client: ApiClient) -> None:
    responses = {each: await client.http.request(*each) for each in METHODS}

    assert {each: response.headers.get("allow") for each, response in responses.items()} == METHODS
    assert {error_of(response) for response in responses.values()} == {
        (405, "method_not_allowed", None)
    }


async def test_an_unknown_route_gets_the_interfaces_error_format(client: ApiClient) -> None:
    paths = [
        "/v1/memory/",
        "/v1/memory/a/b",
        "/v1/memories//",
        "/v1/sessions/a/unknown",
        "/v1/sessions/a/state/unknown",
        "/v1/traces/a/b",
    ]

    responses = {path: await client.http.get(path) for path in paths}

    expected = 404, error_body("resource_not_found", "There is no such route.")
    found = {path: (response.status_code, response.json()) for path, response in responses.items()}
    assert found == dict.fromkeys(paths, expected)


async def test_a_path_outside_all_interfaces_is_not_found(client: ApiClient) -> None:
    paths = ["/v1/memoryx", "/v1", "/V1/memory", "/v1/unknown", "//v1/memory", "/etc/passwd"]

    responses = {path: await client.http.get(f"http://recollect.test{path}") for path in paths}

    found = {path: (response.status_code, response.json()) for path, response in responses.items()}
    not_found = error_body("not_found", "There is no such route. See `/docs` for a list.")
    assert found == dict.fromkeys(paths, (404, not_found))


OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("tags", ["a" * 256]),
    ("tags", ["a"] * 101),
    ("type", "a" * 256),
    ("type", ""),
    ("key", "a" * 256),
    ("user_id", "a" * 256),
    ("summary", "a" * 10_001),
    ("importance", 1.01),
    ("importance", -0.01),
    ("importance", "0.5"),
    ("importance", True),
    ("pinned", 1),
    ("pinned", "true"),
    ("embed", "yes"),
    ("embed", 0),
    ("expires_at", "0000-01-01T00:00:00Z"),
    ("expires_at", "0001-01-01T00:00:00Z"),
    ("expires_at", "0001-01-01T00:00:00+23:59"),
    ("expires_at", "9999-12-31T23:59:59Z"),
    ("expires_at", "9999-12-31T23:59:59-23:59"),
    ("expires_at", "10000-01-01T00:00:00Z"),
    ("expires_at", "2026-13-01T00:00:00Z"),
    ("expires_at", "2026-02-30T00:00:00Z"),
    ("expires_at", "tomorrow"),
    ("expires_at", ""),
    ("expires_at", 1772366400),
    ("expires_at", {}),
]


async def test_a_field_out_of_range_is_named(client: ApiClient) -> None:
    memory = await create_memory(client.http, "Grace lives in New York")

    for name, value in OUT_OF_RANGE:
        body = {"content": "Ada", name: value}
        responses = [await client.http.post("/v1/memories", json=body)]
        if name not in {"embed", "user_id"}:  # only for a new memory
            address = f"/v1/memory/{memory['id']}"
            responses.append(await client.http.patch(address, json=body))
        refused = {error_of(response) for response in responses}
        assert refused == {(400, "invalid_request", name)}, (name, value)

    assert (await client.http.get("/v1/memory")).json()["data"] == [memory]


async def test_a_time_is_stored_in_utc(client: ApiClient) -> None:
    times = {
        "2030-01-01T00:00:00Z": "2030-01-01T00:00:00.000000Z",
        "2030-01-01T00:00:00": "2030-01-01T00:00:00.000000Z",
        "2030-01-01": "2030-01-01T00:00:00.000000Z",
        "2030-01-01T02:30:00+02:30": "2030-01-01T00:00:00.000000Z",
        "2029-12-31T23:00:00.5-01:00": "2030-01-01T00:00:00.500000Z",
        "9998-12-31T23:59:59.999999Z": "9998-12-31T23:59:59.999999Z",
    }

    made = {each: await create_memory(client.http, "Ada", expires_at=each) for each in times}

    assert {each: memory["expires_at"] for each, memory in made.items()} == times
    for memory in made.values():
        assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_any_text_is_stored_unchanged(client: ApiClient) -> None:
    texts = [
        "x" * 10_000,
        "日" * 10_000,
        " ".join(f"w{n}" for n in range(1_800)),
        "'; DROP TABLE memory; --",
        "%s %(workspace_id)s {} {0}",
        "\u202eｅｖｉｌ\u200b\ufeff",
        "\t\r\n a \x7f\x1b[31m",
        "<script>alert(1)</script>",
    ]

    made = [(await create_memory(client.http, text))["content"] for text in texts]

    assert made == texts
    assert sorted(await list_texts(client.http)) == sorted(texts)


async def test_unusual_texts_can_be_searched(client: ApiClient) -> None:
    for content in ("'; DROP TABLE memory; --", "%s %(x)s", "\x7f", "日本"):
        await create_memory(client.http, content)

    responses = [
        await client.http.post("/v1/memory/search", json={"query": query, "threshold": 0.0})
        for query in ("'", "%", "%s", "\\", '"unclosed', "a" * 10_000, "\x7f", "🐘")
    ]

    assert [len(response.json()["data"]) for response in responses] == [4] * len(responses)


async def test_S82_errors_do_not_repeat_the_input(client: ApiClient) -> None:
    secret = "hunter2"

    responses = [
        await client.http.post("/v1/memory", json={"content": {secret: 1}, secret: secret}),
        await client.http.post("/v1/memory", json={"content": "a", "session_id": secret}),
        await client.http.post("/v1/memories", json={"content": "a", "expires_at": secret}),
        await client.http.post("/v1/memories", json={"content": "a", "tags": [{secret: secret}]}),
        await client.http.post("/v1/memories", json={"content": secret * 5_000}),
        await client.http.post("/v1/memories", content=f'{{"{secret}": '.encode(), headers=JSON),
        await client.http.post(
            "/v1/memories", content=f'{{"{secret}":1,"{secret}":2}}', headers=JSON
        ),
        await client.http.post("/v1/memories", content=secret.encode()),
        await client.http.get(f"/v1/memory/{secret}"),
        await client.http.get(f"/v1/{'memory'}/{secret}/{secret}"),
        await client.http.get("/v1/memory", params={"limit": secret}),
        await client.http.get("/v1/memory", params={"starting_after": secret}),
        await client.http.post("/v1/sessions", json={"agent_id": "a", "ttl_seconds": secret}),
        await client.http.post("/v1/memories", json={}, headers={"Idempotency-Key": secret * 50}),
    ]

    assert all(400 <= response.status_code < 500 for response in responses)
    found = "".join(response.text + str(response.headers) for response in responses)
    assert secret not in found


async def test_S82_a_bug_gets_a_response_without_details(
    client: ApiClient,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ValueError("SELECT secret FROM /var/lib/recollect WHERE password = hunter2")

    monkeypatch.setattr("recollect.memories.save.postings.insert", broken)

    response = await client.http.post("/v1/memories", json={"content": "hunter2 is here"})

    assert response.status_code == 500
    assert response.json() == error_body(
        "internal_error", "Something went wrong on our side.", kind="api_error"
    )
    logged = capsys.readouterr()
    assert "request.failed" in logged.out + logged.err
    assert "hunter2" not in logged.out + logged.err
    assert await list_texts(client.http) == []


async def test_S81_logs_contain_no_text_no_query_and_no_key(
    client: ApiClient, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "hunter2"
    session = await open_session(
        client.http, agent_id=secret, user_id=secret, initial_state={secret: secret}
    )
    memory = await create_memory(
        client.http, secret, session, tags=[secret], metadata={secret: secret}
    )
    await client.http.patch(f"/v1/memory/{memory['id']}", json={"content": secret * 2})
    await client.http.post("/v1/memory/search", json={"query": secret})
    await client.http.get("/v1/memories", params={"query": secret, "user_id": secret})
    await client.http.get(f"/v1/memory/{secret}")
    await client.http.post(
        f"/v1/sessions/{session['id']}/turns", json={"input": secret, "output": secret}
    )
    await client.http.post("/v1/memories", content=secret.encode(), headers=JSON)
    async with connect(make_server(engine), **{"X-API-Key": secret, "Cookie": secret}) as http:
        await http.get("/v1/memory", headers={"Authorization": f"Bearer {secret}"})

    written = capsys.readouterr()
    logged = written.out + written.err
    assert "request.answered" in logged
    assert secret not in logged
    assert client.key not in logged
    assert memory["id"] not in logged
    traces = (await client.http.get("/v1/traces")).json()["data"]
    assert all(secret not in json.dumps(each["details"]) for each in traces)
    assert secret not in (await client.http.get("/metrics")).text


@pytest.mark.parametrize("raw", [b'"' + b"a" * 300 + b'"', b"1e308", b"-9223372036854775808"])
def test_strict_json_agrees_with_python(raw: bytes) -> None:
    assert strict_json.read(raw) == json.loads(raw)


@pytest.mark.parametrize("inner", ["", "1", '"a"', "[], {}, 1"])
def test_S61_the_maximum_depth_is_64_levels(inner: str) -> None:
    own = 1 if inner.startswith("[") else 0
    deepest, deeper = (
        f"[{deep(levels - 1 - own, inner)}, [], {{}}]".encode() for levels in (64, 65)
    )

    assert strict_json.read(deepest) == json.loads(deepest)
    with pytest.raises(Invalid):
        strict_json.read(deeper)
