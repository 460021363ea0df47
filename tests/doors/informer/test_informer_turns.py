"""A turn in a chat of the informer door: what the model is shown, and its answer as it comes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest

from recollect.domain import Caller
from recollect.doors import refs
from recollect.doors.informer.turns import take_turn
from recollect.doors.under_way import UnderWay
from recollect.engine.chats import hear
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage
from recollect.models.chat import Answer
from recollect.models.chat import Route as ModelRoute
from recollect.models.chats import Chats
from tests.support.chats import ScriptedChat
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import key_for, serve, visit
from tests.support.informer import Http, Object, complaint, new_chat, remember, say
from tests.support.live import speaking
from tests.support.tools import rows
from tests.support.upstream import Endpoint, Raw, Say, chats_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def with_model(engine: Engine, caller: Caller, model: ScriptedChat) -> AsyncGenerator[Http]:
    key = await key_for(engine, caller.workspace_id)
    asking = replace(engine, chats=Chats(ModelRoute(model, "writer")))
    async with visit(serve(asking), Authorization=f"Bearer {key}") as client:
        yield client


async def test_R173_R174_N30_a_turn_shows_the_model_what_is_relevant_and_streams_its_answer(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table |= {
        "When do we open in Lisbon?": at_cosine(1.0),
        "The Lisbon office opens in May": at_cosine(0.61),
        "Cats are grey": at_cosine(0.59, turn=1),
    }
    model = ScriptedChat("In May.")
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http, instructions="Be brief.")
        ids = await say(http, chat, "hello")
        await remember(http, chat, ids, summary="The Lisbon office opens in May")
        await remember(http, chat, ids, summary="Cats are grey")

        answer = await http.post(
            f"/api/chats/{chat}", json={"content": "When do we open in Lisbon?"}
        )

        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = list(events(answer.text))
        assert [each["type"] for each in frames] == [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
        ]
        assert frames[2]["id"] == frames[3]["id"] == frames[4]["id"]
        assert frames[3]["delta"] == "In May."
        assert answer.text.endswith("data: [DONE]\n\n")
        asked = json.loads(model.asked[-1])["messages"]
        assert asked[0]["role"] == "system"
        assert "Be brief." in asked[0]["content"]
        assert "The Lisbon office opens in May" in asked[0]["content"]
        assert "Cats are grey" not in asked[0]["content"]
        said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
        assert [each["content"] for each in said][-2:] == ["When do we open in Lisbon?", "In May."]


async def test_N30_a_model_that_fails_loses_no_message(engine: Engine, caller: Caller) -> None:
    async with with_model(engine, caller, ScriptedChat("", status=500)) as http:
        chat = await new_chat(http)

        answer = await http.post(f"/api/chats/{chat}", json={"content": "hello"})

        assert complaint(answer) == (503, "Service Unavailable")
        assert (await http.get(f"/api/chats/{chat}")).json()["messageCount"] == 1


@pytest.mark.parametrize("path", ["/api/chats/{chat}", "/api/chats/{chat}/messages"])
async def test_what_is_deleted_of_a_chat_goes_with_the_answers_kept_of_its_turns(
    engine: Engine, caller: Caller, path: str
) -> None:
    """Such an answer names its own message and not the chat."""
    once = {"Idempotency-Key": "a-turn"}
    model = ScriptedChat("A secret.")
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http)
        body = {"content": "Tell me a secret"}
        first = await http.post(f"/api/chats/{chat}", json=body, headers=once)
        again = await http.post(f"/api/chats/{chat}", json=body, headers=once)
        model.text = "No."

        await http.delete(path.format(chat=chat))

        anew = await http.post(f"/api/chats/{chat}", json=body, headers=once)
    assert "A secret." in first.text
    assert again.text == first.text
    assert "A secret." not in anew.text


@pytest.fixture(scope="module")
def endpoint() -> Generator[Endpoint]:
    with speaking() as endpoint:
        yield endpoint


@pytest.fixture
async def asking(engine: Engine, endpoint: Endpoint) -> AsyncGenerator[Engine]:
    """A house whose model says what the test tells the endpoint."""
    endpoint.reset()
    chats = chats_of(endpoint.url, model="m1")
    yield replace(engine, chats=chats)
    await chats.aclose()


async def test_N30_the_answer_comes_word_by_word_and_is_kept_though_the_reader_goes(
    asking: Engine, caller: Caller, endpoint: Endpoint
) -> None:
    endpoint.otherwise = Say("one two three four five six", pause=0.02)
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        whole = await http.post(f"/api/chats/{chat}", json={"content": "count"})
        under_way = UnderWay(asking.now)
        again = NewMessage("user", "count again")
        stream = await take_turn(under_way, asking, caller, refs.chat(chat), again)
        heard = await anext(stream)
        await stream.aclose()
        kept = await eventually(http, chat, 4)

    frames = list(events(whole.text))
    deltas = [each["delta"] for each in frames if each["type"] == "text-delta"]
    assert deltas == ["one", " two", " three", " four", " five", " six"]
    assert b'"start"' in heard
    assert [each["content"] for each in kept[1::2]] == ["one two three four five six"] * 2
    assert kept[1]["id"] == frames[0]["messageId"]
    calls = await rows(
        asking,
        "SELECT purpose, state, output_tokens FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert [tuple(each) for each in calls] == [("turn", "done", 5)] * 2


async def eventually(http: Http, chat: str, count: int) -> list[Object]:
    """The messages of a chat as soon as there are so many."""
    page: Object = {}

    async def are_there() -> bool:
        nonlocal page
        page = (await http.get(f"/api/chats/{chat}/messages")).json()
        return page["total"] >= count

    await until(are_there)
    return page["_embedded"]["inf:message"]


async def test_N30_an_answer_that_breaks_off_is_told_and_kept_as_far_as_it_went(
    asking: Engine, caller: Caller, endpoint: Endpoint
) -> None:
    chunk = {"choices": [{"delta": {"content": "The office opens"}}]}
    endpoint.otherwise = Raw([f"data: {json.dumps(chunk)}\n\n".encode()])
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        answer = await http.post(f"/api/chats/{chat}", json={"content": "When?"})
        kept = await eventually(http, chat, 2)

    assert [each["type"] for each in events(answer.text)][-2:] == ["text-delta", "error"]
    assert answer.text.endswith("data: [DONE]\n\n")
    assert kept[1]["content"] == "The office opens"


# Said again.

ASKED = {"content": "When do we open in Lisbon?", "clientId": "m1"}


async def test_a_turn_repeated_after_its_stream_was_lost_brings_the_answer_that_was_given(
    asking: Engine, caller: Caller, endpoint: Endpoint
) -> None:
    endpoint.otherwise = Say("In May we open", pause=0.02)
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        said = NewMessage("user", ASKED["content"], client_id=ASKED["clientId"])
        stream = await take_turn(UnderWay(asking.now), asking, caller, refs.chat(chat), said)
        await anext(stream)
        await stream.aclose()
        before = await eventually(http, chat, 2)
        endpoint.otherwise = Say("In June")

        again = await http.post(f"/api/chats/{chat}", json=ASKED)

        after = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
    assert told(again) == "In May we open"
    assert next(events(again.text))["messageId"] == before[1]["id"]
    assert again.text.endswith("data: [DONE]\n\n")
    assert after == before
    assert len(endpoint.asked) == 1


class HeldChat(ScriptedChat):
    """Says nothing until the test lets it, and that it was asked."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[Answer]:
        self.reached.set()
        await self.opened.wait()
        async with super().post(path, body, headers) as answer:
            yield answer


async def test_a_turn_repeated_while_its_answer_is_under_way_is_a_conflict_on_every_server(
    engine: Engine, caller: Caller
) -> None:
    model = HeldChat("In May.")
    async with (
        with_model(engine, caller, model) as http,
        with_model(engine, caller, model) as elsewhere,
        asyncio.timeout(20),
    ):
        chat = await new_chat(http)
        first = asyncio.create_task(http.post(f"/api/chats/{chat}", json=ASKED))
        await model.reached.wait()

        repeated = [await each.post(f"/api/chats/{chat}", json=ASKED) for each in (http, elsewhere)]
        model.opened.set()
        answered = await first
        again = await elsewhere.post(f"/api/chats/{chat}", json=ASKED)

        count = (await http.get(f"/api/chats/{chat}")).json()["messageCount"]
    assert [complaint(each) for each in repeated] == [(409, "Conflict")] * 2
    assert told(answered) == told(again) == "In May."
    assert (len(model.asked), count) == (1, 2)


async def test_a_turn_whose_server_died_is_answered_when_its_time_is_up(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    model = ScriptedChat("In May.")
    dying = replace(engine, chats=Chats(ModelRoute(model, "writer")))
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http)
        said = NewMessage("user", ASKED["content"], client_id=ASKED["clientId"])
        await hear(dying, caller, refs.chat(chat), said)

        at_once = await http.post(f"/api/chats/{chat}", json=ASKED)
        clock.advance(timedelta(minutes=2))
        later = await http.post(f"/api/chats/{chat}", json=ASKED)

    assert complaint(at_once) == (409, "Conflict")
    assert told(later) == "In May."


@pytest.mark.parametrize(
    ("body", "once"), [(ASKED, {}), ({"content": "When?"}, {"Idempotency-Key": "a-turn"})]
)
async def test_a_turn_that_was_never_answered_is_answered_when_it_is_repeated(
    engine: Engine, caller: Caller, body: Object, once: dict[str, str]
) -> None:
    model = ScriptedChat("In May.", status=500)
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http)
        failed = await http.post(f"/api/chats/{chat}", json=body, headers=once)
        model.status = 200

        answered = await http.post(f"/api/chats/{chat}", json=body, headers=once)
        again = await http.post(f"/api/chats/{chat}", json=body, headers=once)

        said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
    assert complaint(failed) == (503, "Service Unavailable")
    assert told(answered) == told(again) == "In May."
    assert [each["content"] for each in said] == [body["content"], "In May."]
    assert len(model.asked) == 2


async def test_what_is_answered_late_stands_last_in_front_of_the_model(
    engine: Engine, caller: Caller
) -> None:
    model = ScriptedChat("", status=500)
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http)
        await http.post(f"/api/chats/{chat}", json=ASKED)
        model.status, model.text = 200, "Hello!"
        await http.post(f"/api/chats/{chat}", json={"content": "hello", "clientId": "m2"})
        model.text = "In May."

        late = await http.post(f"/api/chats/{chat}", json=ASKED)

    assert told(late) == "In May."
    asked = json.loads(model.asked[-1])["messages"]
    assert [each["content"] for each in asked] == ["hello", "Hello!", ASKED["content"]]


@pytest.mark.parametrize(
    ("body", "once"), [(ASKED, {}), ({"content": "When?"}, {"Idempotency-Key": "a-turn"})]
)
async def test_an_answer_that_broke_off_is_made_whole_when_the_turn_is_repeated(
    asking: Engine, caller: Caller, endpoint: Endpoint, body: Object, once: dict[str, str]
) -> None:
    chunk = {"choices": [{"delta": {"content": "The office opens"}}]}
    endpoint.script = [Raw([f"data: {json.dumps(chunk)}\n\n".encode()])]
    endpoint.otherwise = Say("The office opens in May.")
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        broken = await http.post(f"/api/chats/{chat}", json=body, headers=once)

        whole = await http.post(f"/api/chats/{chat}", json=body, headers=once)
        again = await http.post(f"/api/chats/{chat}", json=body, headers=once)

        said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
    assert told(broken) == "The office opens"
    assert told(whole) == told(again) == "The office opens in May."
    assert [each["content"] for each in said] == [body["content"], "The office opens in May."]
    ids = {next(events(each.text))["messageId"] for each in (broken, whole, again)}
    assert ids == {said[1]["id"]}
    assert [each["content"] for each in endpoint.asked[1].json["messages"]] == [body["content"]]
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize(
    ("follows", "heard"), [([], "In May."), ([{"role": "assistant", "content": "Soon."}], "Soon.")]
)
async def test_what_was_kept_without_a_model_is_answered_unless_somebody_has(
    engine: Engine, caller: Caller, follows: list[Object], heard: str
) -> None:
    async with with_model(engine, caller, ScriptedChat("In May.")) as http:
        chat = await new_chat(http)
        await http.post(f"/api/chats/{chat}/messages", json={"messages": [ASKED, *follows]})

        answer = await http.post(f"/api/chats/{chat}", json=ASKED)

        count = (await http.get(f"/api/chats/{chat}")).json()["messageCount"]
    assert (told(answer), count) == (heard, 2)


def told(answer: httpx2.Response) -> str:
    """The words of a stream."""
    assert answer.status_code == 200, answer.text
    return "".join(each.get("delta", "") for each in events(answer.text))


def events(text: str) -> Iterator[Object]:
    for line in text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))
