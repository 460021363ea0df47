"""Asking a chat model over HTTP: what passes through, what is tried again, what is given up."""

import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from recollect.errors import Invalid, Unavailable
from recollect.models.assemble import assemble_chats
from recollect.models.chat import CHAT, Question, Route, Usage
from recollect.models.chats import Chats
from recollect.models.faults import NotUnderstood, TooSlow
from recollect.models.upstream import UpstreamChat
from recollect.settings import Settings, Upstream, read_settings
from tests.support.live import speaking
from tests.support.upstream import Endpoint, Raw, Say

pytestmark = pytest.mark.anyio

HELLO = Question([{"role": "user", "content": "Hello?"}])


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with speaking() as endpoint:
        endpoint.url += "/v1"
        yield endpoint


Reach = Callable[..., Route]


@pytest.fixture
async def route() -> AsyncGenerator[Reach]:
    """Routes to an endpoint, hung up when the test is over."""
    async with AsyncExitStack() as stack:

        def reach(endpoint: Endpoint, **options: float) -> Route:
            chat = UpstreamChat(Upstream(endpoint.url, "sk-secret"), **options)
            stack.push_async_callback(chat.aclose)
            return Route(chat, "m1")

        yield reach


async def test_a_question_gets_its_text_and_its_cost(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Say("Good day.")]

    answer = await route(endpoint).ask(HELLO)

    assert (answer.text, answer.usage, answer.is_whole) == ("Good day.", Usage(10, 5), True)
    assert endpoint.asked[0].path == "/v1/chat/completions"
    assert endpoint.asked[0].headers["authorization"] == "Bearer sk-secret"
    assert endpoint.asked[0].json["max_tokens"] == 1_000


async def test_an_answer_cut_off_says_so(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Say("Once upon", finish="length")]

    assert not (await route(endpoint).ask(HELLO)).is_whole


@pytest.mark.parametrize(
    "reply",
    [
        Raw([b"<html>"], content_type="text/html"),
        Raw([b"{}"], content_type="application/json"),
        Raw([b'{"choices": []}'], content_type="application/json"),
        Raw([b'{"choices": [{"message": {"content": [1]}}]}'], content_type="application/json"),
        Raw([b"x" * 100_000] * 3, content_type="text/plain"),
    ],
    ids=["HTML", "nothing", "no choice", "no text", "without end"],
)
async def test_what_is_no_answer_is_not_taken_for_one(
    route: Reach, endpoint: Endpoint, reply: Raw
) -> None:
    endpoint.script = [reply]

    with pytest.raises(NotUnderstood):
        await route(endpoint).ask(HELLO)


async def test_a_refusal_is_not_tried_again(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Raw([b"{}"], status=500, content_type="application/json")]

    with pytest.raises(Unavailable):
        await route(endpoint).ask(HELLO)

    assert len(endpoint.asked) == 1


async def test_a_model_that_says_nothing_is_given_up(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Raw([], hangs=True)]

    with pytest.raises(TooSlow):
        await route(endpoint).ask(Question(HELLO.messages, deadline=timedelta(seconds=0.2)))


async def test_silence_within_an_answer_is_bounded(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Raw([b"{"], hangs=True)]

    with pytest.raises(TooSlow):
        await route(endpoint, idle_seconds=0.2).ask(HELLO)


async def test_half_an_answer_is_none(route: Reach, endpoint: Endpoint) -> None:
    endpoint.script = [Raw([b'{"choices"'], breaks=True)]

    with pytest.raises(Unavailable):
        await route(endpoint).ask(HELLO)


async def test_after_a_row_of_failures_nobody_waits_for_it_any_more(route: Reach) -> None:
    gone = Endpoint()
    gone.url = "http://127.0.0.1:9/v1"
    nobody = route(gone)
    for _ in range(5):
        with pytest.raises(Unavailable):
            await nobody.ask(HELLO)

    with pytest.raises(Unavailable) as refused:
        await nobody.ask(HELLO)

    assert refused.value.retry_after is not None


async def test_bytes_pass_through_as_they_are(route: Reach, endpoint: Endpoint) -> None:
    sent = b'{"model":"m1","x_unknown":{"b":1.50,"a":"\\u00fc"},"stream":true}'
    parts = [b"data: {\r\n", b"\xff\n\n"]
    endpoint.script = [Raw(parts)]

    async with route(endpoint).chat.post(CHAT, sent, {"traceparent": "00-1"}) as answer:
        received = b"".join([chunk async for chunk in answer.chunks])

    assert endpoint.asked[0].body == sent
    assert endpoint.asked[0].headers["traceparent"] == "00-1"
    assert received == b"".join(parts)


def test_a_name_before_the_slash_chooses_the_upstream() -> None:
    chats = assemble_chats(
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


def test_with_no_upstream_there_is_nobody_to_ask() -> None:
    assert Chats().find("gpt") is None
    assert Chats().background is None


def test_settings_of_upstreams_are_checked() -> None:
    with pytest.raises(Invalid, match="http"):
        assemble_chats(Settings(chat_url="ftp://somewhere"))
    with pytest.raises(Invalid, match="upstreams"):
        read_settings({}, overrides={"upstreams": {"a": {"address": "x"}}})
    read = read_settings({}, overrides={"upstreams": {"a": {"url": "http://x", "tools": False}}})
    assert read.upstreams["a"] == Upstream("http://x", tools=False)


async def test_a_plain_question_gets_json(route: Reach, endpoint: Endpoint) -> None:
    listed = await route(endpoint).chat.get("/models")

    assert [each["id"] for each in listed["data"]] == ["m1"]
    assert json.dumps(listed)
