"""The official OpenAI client, unmodified: both APIs, streams, tools, disconnects."""

from collections.abc import Generator
from typing import Any, LiteralString

import openai
import psycopg
import pytest
from openai import OpenAI
from pydantic import BaseModel

from recollect.models.chat_registry import ChatModels
from recollect.models.librarian import NAME, Librarian
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server
from tests.support.upstream import Answer, Call, Endpoint, RawAnswer, chat_models_at
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
) -> Generator[LiveServer]:
    endpoint.reset()
    chats: ChatModels = chat_models_at(endpoint.url, {NAME: Librarian()})
    with live_server(database_url, single_embedder(embedder), clock, chats=chats) as found:
        yield found


@pytest.fixture
def client(live: LiveServer) -> Generator[OpenAI]:
    with OpenAI(api_key=live.key, base_url=live.url + "/v1", max_retries=0) as found:
        yield found


def test_a_turn_works_whole_and_streamed(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="m1", messages=HELLO)
    with client.chat.completions.stream(model="m1", messages=HELLO) as stream:
        final = stream.get_final_completion()

    assert whole.choices[0].message.content == "Hello."
    assert final.choices[0].message.content == "Hello."
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("name", ["x_recall_memory", "save_memory"])
def test_a_built_in_tool_is_invisible_in_the_stream(
    client: OpenAI, endpoint: Endpoint, name: str
) -> None:
    endpoint.script = [
        Answer("Wait.", [Call(name, {"query": "A", "content": "A"})]),
        Answer("Done."),
    ]

    with client.chat.completions.stream(model="m1", messages=HELLO) as stream:
        final = stream.get_final_completion()

    assert final.choices[0].message.content == "Wait.\n\nDone."
    assert not final.choices[0].message.tool_calls


def test_a_mixed_round_gives_the_client_its_own_call(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [
        Answer(None, [Call("x_recall_memory", {"query": "A"}, "a"), Call("get_weather", {}, "b")])
    ]

    with client.chat.completions.stream(model="m1", messages=HELLO, tools=[WEATHER]) as stream:
        final = stream.get_final_completion()

    [call] = final.choices[0].message.tool_calls or []
    assert (call.id, final.choices[0].finish_reason) == ("b", "tool_calls")


class City(BaseModel):
    city: str


def test_structured_output_passes_through(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [Answer('{"city": "Oslo"}')]

    parsed = client.chat.completions.parse(model="m1", messages=HELLO, response_format=City)

    assert parsed.choices[0].message.parsed == City(city="Oslo")
    assert endpoint.requests[-1].json["response_format"]["type"] == "json_schema"


def test_responses_work_whole_streamed_and_continued(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [Answer("Wait.", [Call("x_recall_memory", {"query": "A"})]), Answer("One.")]
    with client.responses.stream(model="m1", input="Hello") as stream:
        first = stream.get_final_response()
    second = client.responses.create(model="m1", input="And?", previous_response_id=first.id)

    assert first.output_text == "Wait.\n\nOne."
    assert [item.type for item in first.output] == ["message", "mcp_call", "message"]
    assert second.output_text == "Hello."
    assert len(endpoint.requests[-1].json["messages"]) >= 4


def test_an_interrupted_stream_raises_an_error(client: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = [
        RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2], breaks=True)
    ]

    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="m1", messages=HELLO, stream=True))


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_disconnect_stops_the_model_and_loses_nothing(
    client: OpenAI, endpoint: Endpoint, live: LiveServer, database_url: str, api: str
) -> None:
    """The question, the answer so far and the inbox item are stored."""
    endpoint.script = [RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    question: Any = [{"role": "user", "content": "I live in Oslo."}]
    thread = {"X-Recollect-Thread": f"cut {api}"}

    stream: Any = (
        client.chat.completions.create(
            model="m1", messages=question, stream=True, extra_headers=thread
        )
        if api == "chat"
        else client.responses.create(model="m1", input=question, stream=True, extra_headers=thread)
    )
    for event in stream:
        if "One" in event.model_dump_json():
            break
    stream.close()

    assert endpoint.disconnected.wait(10)
    messages = _wait_for_two_messages(database_url, live)
    inbox = _rows(database_url, live, "SELECT text FROM inbox_item WHERE workspace_id = %s")
    assert [row[:2] for row in messages] == [("user", "I live in Oslo."), ("assistant", "One")]
    assert messages[1][2]["incomplete"] is True
    assert inbox == [("I live in Oslo.",)]


def _rows(database_url: str, live: LiveServer, query: LiteralString) -> list[Any]:
    """Run a query on the workspace."""
    with psycopg.connect(database_url) as db:
        db.execute("SET LOCAL recollect.reach = 'everywhere'")
        return db.execute(query, [live.caller.workspace_id]).fetchall()


def _wait_for_two_messages(database_url: str, live: LiveServer) -> list[Any]:
    """Return the messages of the workspace once question and answer are stored."""
    messages: list[Any] = []

    def has_two() -> bool:
        messages[:] = _rows(
            database_url,
            live,
            "SELECT role, trim(content), metadata FROM message WHERE workspace_id = %s"
            " ORDER BY position",
        )
        return len(messages) == 2

    wait_until(has_two)
    return messages


def test_models_embeddings_and_errors_work(client: OpenAI) -> None:
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

    assert "not a language model" in ask("Hello there.")
    assert ask("Please remember that the launch is on May 4.").startswith("I have saved that as")
    assert ask("What is the moon made of?").startswith(("I have no memory", "I remember"))
