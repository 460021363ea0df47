"""LangChain's `ChatOpenAI` and the OpenAI Agents SDK, unmodified, with a live server."""

from collections.abc import Generator
from contextlib import closing
from typing import Any, cast

import pytest
from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic import BaseModel, SecretStr

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server
from tests.support.upstream import Answer, Call, Endpoint, RawAnswer, chat_models_at

RECALL = Call("x_recall_memory", {"query": "tea"}, "ours")


@pytest.fixture
def live(
    database_url: str, embedder: StubEmbedder, clock: Clock, endpoint: Endpoint
) -> Generator[LiveServer]:
    endpoint.reset()
    with live_server(
        database_url, single_embedder(embedder), clock, chats=chat_models_at(endpoint.url)
    ) as found:
        yield found


class CityAnswer(BaseModel):
    """A structured answer."""

    city: str


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"Rain in {city}."


@pytest.mark.parametrize("api", ["completions", "responses"])
def test_langchain_streams_calls_tools_parses_and_disconnects(
    live: LiveServer, endpoint: Endpoint, api: str
) -> None:
    chat = ChatOpenAI(
        model="m1",
        base_url=live.url + "/v1",
        api_key=SecretStr(live.key),
        max_retries=0,
        use_responses_api=api == "responses",
    )

    endpoint.script = [Answer("Wait.", [RECALL]), Answer("Done.")]
    whole = AIMessageChunk(content="")
    for chunk in chat.stream("Hello"):
        whole += chunk
    assert whole.text.replace("\n", "") == "Wait.Done."
    assert not whole.tool_calls

    endpoint.script = [Answer(None, [RECALL, Call("get_weather", {"city": "Oslo"}, "theirs")])]
    asked = HumanMessage("Weather?")
    called = chat.bind_tools([get_weather]).invoke([asked])
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    endpoint.script = [Answer("It rains.")]
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    final = chat.bind_tools([get_weather]).invoke([asked, called, result])
    assert final.text == "It rains."
    # The model sees both calls and both results; the client saw only its own.
    assert [each["role"] for each in endpoint.requests[-1].json["messages"]].count("tool") == 2

    endpoint.script = [Answer('{"city": "Oslo"}')]
    assert chat.with_structured_output(CityAnswer).invoke("Where?") == CityAnswer(city="Oslo")

    endpoint.script = [RawAnswer(Answer("One two.").events("m1", with_usage=False)[:3], hangs=True)]
    with closing(cast("Generator[Any]", chat.stream("Hello"))) as stream:
        next(stream)
    assert endpoint.disconnected.wait(10)


@function_tool
def look_outside(city: str) -> str:
    """The weather of a city."""
    return f"Rain in {city}."


@pytest.mark.anyio
@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_an_agent_runs_its_own_tool_and_ours(
    live: LiveServer, endpoint: Endpoint, api: str
) -> None:
    async with AsyncOpenAI(api_key=live.key, base_url=live.url + "/v1", max_retries=0) as client:
        kinds = {"completions": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
        model: Model = kinds[api](model="m1", openai_client=client)
        agent = Agent(name="Weather", model=model, tools=[look_outside])
        untraced = RunConfig(tracing_disabled=True)
        script = [
            Answer(None, [RECALL]),
            Answer(None, [RECALL, Call("look_outside", {"city": "Oslo"}, "theirs")]),
            Answer("It rains in Oslo."),
        ]

        endpoint.script = [*script]
        whole = await Runner.run(agent, "Weather?", run_config=untraced)
        endpoint.script = [*script]
        streamed = Runner.run_streamed(agent, "Weather?", run_config=untraced)
        kinds_seen = [event.type async for event in streamed.stream_events()]

        endpoint.script = [Answer('{"city": "Oslo"}')]
        typed = Agent(name="Typed", model=model, output_type=CityAnswer)
        parsed = await Runner.run(typed, "Where?", run_config=untraced)

    assert whole.final_output == "It rains in Oslo."
    assert streamed.final_output == "It rains in Oslo."
    assert "raw_response_event" in kinds_seen
    assert parsed.final_output == CityAnswer(city="Oslo")
