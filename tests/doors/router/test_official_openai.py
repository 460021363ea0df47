"""The official OpenAI client, unmodified: both APIs, streams, tools, hanging up."""

from collections.abc import Generator
from typing import Any, LiteralString

import openai
import psycopg
import pytest
from openai import OpenAI
from pydantic import BaseModel

from recollect.models.chats import Chats
from recollect.models.librarian import NAME, Librarian
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import Live, live_server
from tests.support.upstream import Call, Endpoint, Raw, Say, chats_of
from tests.support.waiting import wait_until

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
HELLO: Any = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def live(
    database_url: str, embedder: StubEmbedder, clock: Clock, endpoint: Endpoint
) -> Generator[Live]:
    endpoint.reset()
    chats: Chats = chats_of(endpoint.url, {NAME: Librarian()})
    with live_server(database_url, only(embedder), clock, chats=chats) as found:
        yield found


@pytest.fixture
def client(live: Live) -> Generator[OpenAI]:
    with OpenAI(api_key=live.key, base_url=live.url + "/v1", max_retries=0) as found:
        yield found


def test_a_turn_whole_and_streamed(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="m1", messages=HELLO)
    with client.chat.completions.stream(model="m1", messages=HELLO) as stream:
        final = stream.get_final_completion()

    assert whole.choices[0].message.content == "Hello."
    assert final.choices[0].message.content == "Hello."
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("name", ["x_recall_memory", "save_memory"])
def test_a_server_tool_leaves_one_clean_stream(
    client: OpenAI, endpoint: Endpoint, name: str
) -> None:
    endpoint.script = [Say("Wait.", [Call(name, {"query": "A", "content": "A"})]), Say("Done.")]

    with client.chat.completions.stream(model="m1", messages=HELLO) as stream:
        final = stream.get_final_completion()

    assert final.choices[0].message.content == "Wait.\n\nDone."
    assert not final.choices[0].message.tool_calls


def test_a_mixed_round_gives_the_client_its_own_call(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [
        Say(None, [Call("x_recall_memory", {"query": "A"}, "a"), Call("get_weather", {}, "b")])
    ]

    with client.chat.completions.stream(model="m1", messages=HELLO, tools=[WEATHER]) as stream:
        final = stream.get_final_completion()

    [call] = final.choices[0].message.tool_calls or []
    assert (call.id, final.choices[0].finish_reason) == ("b", "tool_calls")


class Answer(BaseModel):
    city: str


def test_structured_output_passes(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [Say('{"city": "Oslo"}')]

    parsed = client.chat.completions.parse(model="m1", messages=HELLO, response_format=Answer)

    assert parsed.choices[0].message.parsed == Answer(city="Oslo")
    assert endpoint.asked[-1].json["response_format"]["type"] == "json_schema"


def test_responses_whole_streamed_and_continued(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [Say("Wait.", [Call("x_recall_memory", {"query": "A"})]), Say("One.")]
    with client.responses.stream(model="m1", input="Hello") as stream:
        first = stream.get_final_response()
    second = client.responses.create(model="m1", input="And?", previous_response_id=first.id)

    assert first.output_text == "Wait.\n\nOne."
    assert [item.type for item in first.output] == ["message", "mcp_call", "message"]
    assert second.output_text == "Hello."
    assert len(endpoint.asked[-1].json["messages"]) >= 4


def test_a_stream_that_fails_raises(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [Raw(Say("One two.").events("m1", with_usage=False)[:2], breaks=True)]

    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="m1", messages=HELLO, stream=True))


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_hanging_up_hangs_up_on_the_model_and_loses_nothing(
    client: OpenAI, endpoint: Endpoint, live: Live, database_url: str, api: str
) -> None:
    """The question, as much of the answer as there was, and what is to be learnt stay."""
    endpoint.script = [Raw(Say("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    asked: Any = [{"role": "user", "content": "I live in Oslo."}]
    thread = {"X-Recollect-Thread": f"cut {api}"}

    stream: Any = (
        client.chat.completions.create(
            model="m1", messages=asked, stream=True, extra_headers=thread
        )
        if api == "chat"
        else client.responses.create(model="m1", input=asked, stream=True, extra_headers=thread)
    )
    for event in stream:
        if "One" in event.model_dump_json():
            break
    stream.close()

    assert endpoint.hung_up.wait(10)
    said = _until_two(database_url, live)
    lessons = _rows(database_url, live, "SELECT text FROM lesson WHERE workspace_id = %s")
    assert [row[:2] for row in said] == [("user", "I live in Oslo."), ("assistant", "One")]
    assert said[1][2]["incomplete"] is True
    assert lessons == [("I live in Oslo.",)]


def _rows(database_url: str, live: Live, query: LiteralString) -> list[Any]:
    """What is in the workspace now."""
    with psycopg.connect(database_url) as db:
        db.execute("SET LOCAL recollect.reach = 'everywhere'")
        return db.execute(query, [live.caller.workspace_id]).fetchall()


def _until_two(database_url: str, live: Live) -> list[Any]:
    """What was said in the workspace, once both sides are on the record."""
    said: list[Any] = []

    def are_two() -> bool:
        said[:] = _rows(
            database_url,
            live,
            "SELECT role, trim(content), metadata FROM message WHERE workspace_id = %s"
            " ORDER BY position",
        )
        return len(said) == 2

    wait_until(are_two)
    return said


def test_models_embeddings_and_errors(client: OpenAI) -> None:
    assert [each.id for each in client.models.list()] == [NAME, "m1"]
    assert len(client.embeddings.create(model="x", input="a").data[0].embedding) == 8
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("org/none")
    assert missing.value.code == "model_not_found"


def test_the_librarian_saves_and_quotes(client: OpenAI) -> None:
    def ask(text: str) -> str:
        with client.chat.completions.stream(
            model=NAME, messages=[{"role": "user", "content": text}]
        ) as stream:
            return stream.get_final_completion().choices[0].message.content or ""

    assert "no language model" in ask("Hello there.")
    assert ask("Please remember that the launch is on May 4.").startswith("I have saved that as")
    assert ask("What is the moon made of?").startswith(("I know nothing", "I was told"))
