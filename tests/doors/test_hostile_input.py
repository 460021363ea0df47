"""Input nobody should send: each is refused in the door's own envelope, and nothing is lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from recollect.doors import front, strict_json
from recollect.doors.front import MIB
from recollect.engine.core import Engine
from recollect.errors import Invalid
from recollect.server import Server
from tests.support.house import Visitor, serve, visit
from tests.support.statebase import complaint, listed, open_session, problem, remember

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
INVALID = (400, "invalid_request", None)


def deep(levels: int, inner: str = "1") -> str:
    return "[" * levels + inner + "]" * levels


def with_metadata(value: str) -> bytes:
    return b'{"content": "Ada", "metadata": {"v": %s}}' % value.encode()


NOT_ACCEPTABLE: dict[str, bytes] = {
    "NUL in a text": b'{"content": "A\\u0000da"}',
    "NUL in a key of metadata": b'{"content": "Ada", "metadata": {"a\\u0000": 1}}',
    "NUL deep in metadata": with_metadata('[[{"a": ["\\u0000"]}]]'),
    "NUL in a tag": b'{"content": "Ada", "tags": ["a\\u0000"]}',
    "NUL in a field nobody knows": b'{"content": "Ada", "unknown": "\\u0000"}',
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


async def everything(http: httpx2.AsyncClient) -> list[Any]:
    """What a caller can see of a workspace."""
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
async def test_S61_a_body_that_cannot_be_kept_is_refused_and_changes_nothing(
    visitor: Visitor, method: str, path: str
) -> None:
    session = await open_session(visitor.http)
    memory = await remember(visitor.http, "Grace lives in New York", session)
    address = path.format(session=session["id"], memory=memory["id"])
    before = await everything(visitor.http)
    may_be_empty = {"nothing", "null"} if path.endswith(("context", "fork")) else set[str]()

    answers = {
        name: await visitor.http.request(method, address, content=body, headers=JSON)
        for name, body in NOT_ACCEPTABLE.items()
        if name not in may_be_empty
    }

    refused = {name: complaint(answer) for name, answer in answers.items()}
    assert refused == dict.fromkeys(answers, INVALID)
    assert await everything(visitor.http) == before


ODD_BUT_GOOD = [
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


async def test_what_is_only_odd_is_kept_as_it_came(visitor: Visitor) -> None:
    for body in ODD_BUT_GOOD:
        answer = await visitor.http.post("/v1/memories", content=body.encode(), headers=JSON)

        memory = answer.json()
        assert answer.status_code == 201, answer.text
        assert {name: memory[name] for name in json.loads(body)} == json.loads(body)
        assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


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


async def test_a_body_in_another_format_than_json_is_refused(visitor: Visitor) -> None:
    answers = {
        each: await visitor.http.post(
            "/v1/memories", content=b'{"content": "Ada"}', headers={"content-type": each}
        )
        for each in FORMATS
    }

    assert {each: answer.status_code for each, answer in answers.items()} == FORMATS
    refusal = problem("invalid_request", "The body must be `application/json`.")
    refused = [each.json() for each in answers.values() if each.status_code == 415]
    assert refused == [refusal] * 6
    assert await listed(visitor.http) == ["Ada"] * 3


async def test_a_body_without_a_format_is_refused(visitor: Visitor) -> None:
    answer = await visitor.http.post("/v1/memories", content=b'{"content": "Ada"}')

    assert "content-type" not in answer.request.headers
    assert complaint(answer) == (415, "invalid_request", None)


class Pour:
    """A body that comes in pieces, and how many of them were taken."""

    def __init__(self, pieces: int, size: int = 64 * 1024) -> None:
        self.pieces = pieces
        self.size = size
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            self.taken += 1
            yield b" " * self.size


@pytest.mark.parametrize("declared", [None, "10", str(10**12)])
async def test_a_body_over_a_mebibyte_is_refused_and_not_collected(
    visitor: Visitor, declared: str | None
) -> None:
    pour = Pour(pieces=10_000)
    headers = JSON if declared is None else {**JSON, "content-length": declared}

    answer = await visitor.http.post("/v1/memories", content=pour, headers=headers)

    assert answer.status_code == 413
    assert answer.json() == problem(
        "payload_too_large", "`body` may have at most 1,048,576 bytes.", param="body"
    )
    assert pour.taken == MIB // pour.size + 1
    assert await listed(visitor.http) == []


async def test_a_body_of_exactly_a_mebibyte_is_read(visitor: Visitor) -> None:
    body = b'{"content": "Ada", "ignored": "%s"}'
    body %= b"a" * (MIB - len(body) + 2)

    answers = [
        await visitor.http.post("/v1/memories", content=each, headers=JSON)
        for each in (body, body + b" ")
    ]

    assert len(body) == MIB
    assert [answer.status_code for answer in answers] == [201, 413]


@pytest.mark.parametrize("method", ["DELETE", "GET"])
async def test_a_body_where_none_belongs_is_bounded_too(visitor: Visitor, method: str) -> None:
    pour = Pour(pieces=10_000)

    answer = await visitor.http.request(method, "/v1/memory/mem_aaaaaaaaaaaa", content=pour)

    assert complaint(answer) == (413, "payload_too_large", "body")
    assert pour.taken == MIB // pour.size + 1


async def test_strangers_have_no_body_read(server: Server) -> None:
    pour = Pour(pieces=10)

    async with visit(server) as http:
        answer = await http.post("/v1/memories", content=pour, headers=JSON)

    assert answer.status_code == 401
    assert pour.taken == 0


async def test_S60_S61_a_body_that_never_ends_is_cut_off(
    visitor: Visitor, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_BODY_SECONDS", 0.01)

    answer, _ = await raw_request(server, visitor, pieces=[b'{"content": '], ends=False)

    assert complaint(answer) == INVALID
    assert answer.json()["error"]["message"] == "The body did not arrive in time."


async def test_a_client_that_leaves_in_the_middle_stores_nothing(
    visitor: Visitor, server: Server
) -> None:
    answer, _ = await raw_request(server, visitor, pieces=[b'{"content": "Ada"}'], leaves=True)

    assert complaint(answer) == INVALID
    assert await listed(visitor.http) == []


async def raw_request(
    server: Server,
    visitor: Visitor,
    *,
    pieces: list[bytes],
    ends: bool = True,
    leaves: bool = False,
    path: str = "/v1/memories",
    query: bytes = b"",
    method: str = "POST",
) -> tuple[httpx2.Response, list[Any]]:
    """A request below what a well-behaved client can send."""
    sent: list[Any] = []
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if leaves:
        messages.append({"type": "http.disconnect"})
    elif ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await never()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"x-api-key", visitor.key.encode()), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 50_000),
        "scheme": "http",
        "server": ("recollect.test", 80),
        "root_path": "",
    }
    await server.app(scope, receive, send)
    body = b"".join(each.get("body", b"") for each in sent[1:])
    return httpx2.Response(sent[0]["status"], headers=sent[0]["headers"], content=body), sent


async def never() -> None:
    await asyncio.Event().wait()


async def test_S61_a_nul_in_the_address_is_refused(visitor: Visitor) -> None:
    addresses = [
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

    answers = {each: await visitor.http.get(each) for each in addresses}

    expected = 400, problem("invalid_request", "The address holds a NUL character.")
    told = {each: (answer.status_code, answer.json()) for each, answer in answers.items()}
    assert told == dict.fromkeys(addresses, expected)


@pytest.mark.parametrize("letters", [b"%FF%FE", b"%ED%A0%80", b"%C0%80", b"%F0%9F%90"])
async def test_broken_utf_8_in_the_address_finds_nothing_and_breaks_nothing(
    visitor: Visitor, server: Server, letters: bytes
) -> None:
    await remember(visitor.http, "Ada lives in London")

    listing, _ = await raw_request(
        server, visitor, pieces=[], method="GET", path="/v1/memory", query=b"user_id=" + letters
    )
    one = await visitor.http.get("http://recollect.test/v1/memory/" + letters.decode())

    assert (listing.status_code, listing.json()["data"]) == (200, [])
    assert complaint(one) == (404, "memory_not_found", None)


async def test_S61_an_address_that_is_too_long_is_refused(visitor: Visitor) -> None:
    address = "/v1/memory/" + "é" * 5_000

    answers = [
        await visitor.http.get(address),
        await visitor.http.delete(address, headers={"Idempotency-Key": "a"}),
    ]

    expected = problem("invalid_request", "The address is longer than 500 characters.")
    assert [(each.status_code, each.json()) for each in answers] == [(400, expected)] * 2


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


async def test_another_method_is_told_which_ones_there_are(visitor: Visitor) -> None:
    answers = {each: await visitor.http.request(*each) for each in METHODS}

    assert {each: answer.headers.get("allow") for each, answer in answers.items()} == METHODS
    assert {complaint(answer) for answer in answers.values()} == {(405, "method_not_allowed", None)}


async def test_an_unknown_route_behind_the_door_answers_in_its_envelope(visitor: Visitor) -> None:
    paths = [
        "/v1/memory/",
        "/v1/memory/a/b",
        "/v1/memories//",
        "/v1/sessions/a/unknown",
        "/v1/sessions/a/state/unknown",
        "/v1/traces/a/b",
    ]

    answers = {path: await visitor.http.get(path) for path in paths}

    expected = 404, problem("resource_not_found", "There is no such route.")
    told = {path: (answer.status_code, answer.json()) for path, answer in answers.items()}
    assert told == dict.fromkeys(paths, expected)


async def test_what_lies_behind_no_door_is_nowhere(visitor: Visitor) -> None:
    paths = ["/v1/memoryx", "/v1", "/V1/memory", "/v1/unknown", "//v1/memory", "/etc/passwd"]

    answers = {path: await visitor.http.get(f"http://recollect.test{path}") for path in paths}

    told = {path: (answer.status_code, answer.json()) for path, answer in answers.items()}
    nowhere = problem("not_found", "There is nothing here. `/docs` lists what there is.")
    assert told == dict.fromkeys(paths, (404, nowhere))


OUT_OF_BOUNDS: list[tuple[str, Any]] = [
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


async def test_a_field_out_of_its_bounds_is_named(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "Grace lives in New York")

    for name, value in OUT_OF_BOUNDS:
        body = {"content": "Ada", name: value}
        answers = [await visitor.http.post("/v1/memories", json=body)]
        if name not in {"embed", "user_id"}:  # of a new memory only
            address = f"/v1/memory/{memory['id']}"
            answers.append(await visitor.http.patch(address, json=body))
        refused = {complaint(answer) for answer in answers}
        assert refused == {(400, "invalid_request", name)}, (name, value)

    assert (await visitor.http.get("/v1/memory")).json()["data"] == [memory]


async def test_a_time_is_kept_in_utc(visitor: Visitor) -> None:
    times = {
        "2030-01-01T00:00:00Z": "2030-01-01T00:00:00.000000Z",
        "2030-01-01T00:00:00": "2030-01-01T00:00:00.000000Z",
        "2030-01-01": "2030-01-01T00:00:00.000000Z",
        "2030-01-01T02:30:00+02:30": "2030-01-01T00:00:00.000000Z",
        "2029-12-31T23:00:00.5-01:00": "2030-01-01T00:00:00.500000Z",
        "9998-12-31T23:59:59.999999Z": "9998-12-31T23:59:59.999999Z",
    }

    made = {each: await remember(visitor.http, "Ada", expires_at=each) for each in times}

    assert {each: memory["expires_at"] for each, memory in made.items()} == times
    for memory in made.values():
        assert (await visitor.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_any_text_is_kept_byte_for_byte(visitor: Visitor) -> None:
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

    made = [(await remember(visitor.http, text))["content"] for text in texts]

    assert made == texts
    assert sorted(await listed(visitor.http)) == sorted(texts)


async def test_an_odd_workspace_of_texts_can_be_searched(visitor: Visitor) -> None:
    for content in ("'; DROP TABLE memory; --", "%s %(x)s", "\x7f", "日本"):
        await remember(visitor.http, content)

    answers = [
        await visitor.http.post("/v1/memory/search", json={"query": query, "threshold": 0.0})
        for query in ("'", "%", "%s", "\\", '"unclosed', "a" * 10_000, "\x7f", "🐘")
    ]

    assert [len(answer.json()["data"]) for answer in answers] == [4] * len(answers)


async def test_S82_errors_say_nothing_of_what_was_sent(visitor: Visitor) -> None:
    secret = "hunter2"

    answers = [
        await visitor.http.post("/v1/memory", json={"content": {secret: 1}, secret: secret}),
        await visitor.http.post("/v1/memory", json={"content": "a", "session_id": secret}),
        await visitor.http.post("/v1/memories", json={"content": "a", "expires_at": secret}),
        await visitor.http.post("/v1/memories", json={"content": "a", "tags": [{secret: secret}]}),
        await visitor.http.post("/v1/memories", json={"content": secret * 5_000}),
        await visitor.http.post("/v1/memories", content=f'{{"{secret}": '.encode(), headers=JSON),
        await visitor.http.post(
            "/v1/memories", content=f'{{"{secret}":1,"{secret}":2}}', headers=JSON
        ),
        await visitor.http.post("/v1/memories", content=secret.encode()),
        await visitor.http.get(f"/v1/memory/{secret}"),
        await visitor.http.get(f"/v1/{'memory'}/{secret}/{secret}"),
        await visitor.http.get("/v1/memory", params={"limit": secret}),
        await visitor.http.get("/v1/memory", params={"starting_after": secret}),
        await visitor.http.post("/v1/sessions", json={"agent_id": "a", "ttl_seconds": secret}),
        await visitor.http.post("/v1/memories", json={}, headers={"Idempotency-Key": secret * 50}),
    ]

    assert all(400 <= answer.status_code < 500 for answer in answers)
    told = "".join(answer.text + str(answer.headers) for answer in answers)
    assert secret not in told


async def test_S82_a_bug_is_answered_without_saying_what_it_is(
    visitor: Visitor,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ValueError("SELECT secret FROM /var/lib/recollect WHERE password = hunter2")

    monkeypatch.setattr("recollect.engine.save.words.insert", broken)

    answer = await visitor.http.post("/v1/memories", json={"content": "hunter2 is here"})

    assert answer.status_code == 500
    assert answer.json() == problem(
        "internal_error", "Something went wrong on our side.", kind="api_error"
    )
    logged = capsys.readouterr()
    assert "request.failed" in logged.out + logged.err
    assert "hunter2" not in logged.out + logged.err
    assert await listed(visitor.http) == []


async def test_S81_logs_hold_no_text_no_query_and_no_key(
    visitor: Visitor, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "hunter2"
    session = await open_session(
        visitor.http, agent_id=secret, user_id=secret, initial_state={secret: secret}
    )
    memory = await remember(visitor.http, secret, session, tags=[secret], metadata={secret: secret})
    await visitor.http.patch(f"/v1/memory/{memory['id']}", json={"content": secret * 2})
    await visitor.http.post("/v1/memory/search", json={"query": secret})
    await visitor.http.get("/v1/memories", params={"query": secret, "user_id": secret})
    await visitor.http.get(f"/v1/memory/{secret}")
    await visitor.http.post(
        f"/v1/sessions/{session['id']}/turns", json={"input": secret, "output": secret}
    )
    await visitor.http.post("/v1/memories", content=secret.encode(), headers=JSON)
    async with visit(serve(engine), **{"X-API-Key": secret, "Cookie": secret}) as http:
        await http.get("/v1/memory", headers={"Authorization": f"Bearer {secret}"})

    written = capsys.readouterr()
    logged = written.out + written.err
    assert "request.answered" in logged
    assert secret not in logged
    assert visitor.key not in logged
    assert memory["id"] not in logged
    traces = (await visitor.http.get("/v1/traces")).json()["data"]
    assert all(secret not in json.dumps(each["details"]) for each in traces)
    assert secret not in (await visitor.http.get("/metrics")).text


@pytest.mark.parametrize("raw", [b'"' + b"a" * 300 + b'"', b"1e308", b"-9223372036854775808"])
def test_strict_json_reads_what_python_reads(raw: bytes) -> None:
    assert strict_json.read(raw) == json.loads(raw)


@pytest.mark.parametrize("inner", ["", "1", '"a"', "[], {}, 1"])
def test_the_deepest_level_is_64_whatever_else_is_there(inner: str) -> None:
    own = 1 if inner.startswith("[") else 0
    deepest, deeper = (
        f"[{deep(levels - 1 - own, inner)}, [], {{}}]".encode() for levels in (64, 65)
    )

    assert strict_json.read(deepest) == json.loads(deepest)
    with pytest.raises(Invalid):
        strict_json.read(deeper)
