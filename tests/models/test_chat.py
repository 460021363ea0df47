"""Calls to a chat model over HTTP: pass-through, retries and failures."""

import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from recollect.core.errors import Invalid, Unavailable
from recollect.core.settings import Settings, Upstream, read_settings
from recollect.models.chat_errors import NotUnderstood, TooSlow
from recollect.models.chat_model import CHAT, ChatRoute, ModelRequest, TokenUsage
from recollect.models.chat_registry import ChatModels
from recollect.models.endpoint_chat import EndpointChat
from recollect.models.from_settings import make_chat_models
from tests.support.live_server import serve_chat_endpoint
from tests.support.upstream import Answer, Endpoint, RawAnswer

pytestmark = pytest.mark.anyio

HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve_chat_endpoint() as endpoint:
        endpoint.url += "/v1"
        yield endpoint


MakeRoute = Callable[..., ChatRoute]


@pytest.fixture
async def route() -> AsyncGenerator[MakeRoute]:
    """Make routes to an endpoint; their connections are closed after the test."""
    async with AsyncExitStack() as stack:

        def reach(endpoint: Endpoint, **options: float) -> ChatRoute:
            chat = EndpointChat(Upstream(endpoint.url, "sk-secret"), **options)
            stack.push_async_callback(chat.aclose)
            return ChatRoute(chat, "m1")

        yield reach


async def test_an_answer_has_its_text_and_token_usage(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [Answer("Good day.")]

    answer = await route(endpoint).ask(HELLO)

    assert (answer.text, answer.usage, answer.is_whole) == ("Good day.", TokenUsage(10, 5), True)
    assert endpoint.requests[0].path == "/v1/chat/completions"
    assert endpoint.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert endpoint.requests[0].json["max_tokens"] == 1_000


async def test_a_truncated_answer_is_marked(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [Answer("Once upon", finish="length")]

    assert not (await route(endpoint).ask(HELLO)).is_whole


@pytest.mark.parametrize(
    "reply",
    [
        RawAnswer([b"<html>"], content_type="text/html"),
        RawAnswer([b"{}"], content_type="application/json"),
        RawAnswer([b'{"choices": []}'], content_type="application/json"),
        RawAnswer(
            [b'{"choices": [{"message": {"content": [1]}}]}'], content_type="application/json"
        ),
        RawAnswer([b"x" * 100_000] * 3, content_type="text/plain"),
    ],
    ids=["HTML", "nothing", "no choice", "no text", "without end"],
)
async def test_an_invalid_answer_is_rejected(
    route: MakeRoute, endpoint: Endpoint, reply: RawAnswer
) -> None:
    endpoint.script = [reply]

    with pytest.raises(NotUnderstood):
        await route(endpoint).ask(HELLO)


async def test_an_error_status_is_not_retried(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [RawAnswer([b"{}"], status=500, content_type="application/json")]

    with pytest.raises(Unavailable):
        await route(endpoint).ask(HELLO)

    assert len(endpoint.requests) == 1


async def test_a_silent_model_times_out(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [RawAnswer([], hangs=True)]

    with pytest.raises(TooSlow):
        await route(endpoint).ask(ModelRequest(HELLO.messages, deadline=timedelta(seconds=0.2)))


async def test_silence_within_an_answer_times_out(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [RawAnswer([b"{"], hangs=True)]

    with pytest.raises(TooSlow):
        await route(endpoint, idle_seconds=0.2).ask(HELLO)


async def test_an_interrupted_answer_is_unavailable(route: MakeRoute, endpoint: Endpoint) -> None:
    endpoint.script = [RawAnswer([b'{"choices"'], breaks=True)]

    with pytest.raises(Unavailable):
        await route(endpoint).ask(HELLO)


async def test_repeated_failures_open_the_circuit(route: MakeRoute) -> None:
    missing = Endpoint()
    missing.url = "http://127.0.0.1:9/v1"
    unreachable = route(missing)
    for _ in range(5):
        with pytest.raises(Unavailable):
            await unreachable.ask(HELLO)

    with pytest.raises(Unavailable) as refused:
        await unreachable.ask(HELLO)

    assert refused.value.retry_after is not None


async def test_bytes_pass_through_unchanged(route: MakeRoute, endpoint: Endpoint) -> None:
    sent = b'{"model":"m1","x_unknown":{"b":1.50,"a":"\\u00fc"},"stream":true}'
    parts = [b"data: {\r\n", b"\xff\n\n"]
    endpoint.script = [RawAnswer(parts)]

    async with route(endpoint).chat.post(CHAT, sent, {"traceparent": "00-1"}) as answer:
        received = b"".join([chunk async for chunk in answer.chunks])

    assert endpoint.requests[0].body == sent
    assert endpoint.requests[0].headers["traceparent"] == "00-1"
    assert received == b"".join(parts)


def test_the_name_before_the_slash_chooses_the_upstream() -> None:
    chats = make_chat_models(
        Settings(
            chat_url="http://one.test/v1",
            chat_model="small",
            upstreams={"two": Upstream("http://two.test/v1", tools=False)},
        )
    )

    one, two = chats.find("org/model"), chats.find("two/org/model")
    assert one is not None
    assert two is not None
    assert (one.model, two.model) == ("org/model", "org/model")
    assert (one.chat.takes_tools, two.chat.takes_tools) == (True, False)
    assert chats.background is not None
    assert chats.background.model == "small"
    nameless = chats.find(None)
    assert nameless is not None
    assert nameless.model == "small"


def test_without_an_upstream_there_is_no_route() -> None:
    assert ChatModels().find("gpt") is None
    assert ChatModels().background is None


def test_upstream_settings_are_validated() -> None:
    with pytest.raises(Invalid, match="http"):
        make_chat_models(Settings(chat_url="ftp://somewhere"))
    with pytest.raises(Invalid, match="upstreams"):
        read_settings({}, overrides={"upstreams": {"a": {"address": "x"}}})
    read = read_settings({}, overrides={"upstreams": {"a": {"url": "http://x", "tools": False}}})
    assert read.upstreams["a"] == Upstream("http://x", tools=False)


async def test_a_get_request_returns_json(route: MakeRoute, endpoint: Endpoint) -> None:
    listed = await route(endpoint).chat.get("/models")

    assert [each["id"] for each in listed["data"]] == ["m1"]
    assert json.dumps(listed)
