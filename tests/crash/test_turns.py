"""A server that stops during a turn keeps the user's message and the facts to learn from it."""

import asyncio
import signal
from collections.abc import Callable

import httpx2
import psycopg
import pytest

from tests.support.database import TestDatabases
from tests.support.live_server import serve_app
from tests.support.serve_process import ServeProcess, running_server
from tests.support.upstream import Answer, Endpoint, RawAnswer
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

THREAD = "killed"


async def chat_until_stopped(instance: ServeProcess, stop: Callable[[], None]) -> None:
    """Start a streamed turn and stop the server after the first words."""
    headers = {"Authorization": f"Bearer {instance.key}", "X-Recollect-Thread": THREAD}
    messages = [{"role": "user", "content": "I live in Oslo. What is the weather?"}]
    body = {"model": "m1", "messages": messages, "stream": True}
    async with (
        httpx2.AsyncClient(base_url=instance.url, headers=headers, timeout=30) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200
        with pytest.raises(httpx2.TransportError):
            async for line in answer.aiter_lines():
                if "One" in line:
                    await asyncio.to_thread(stop)


async def learnt_memories(instance: ServeProcess) -> list[str]:
    """Wait until there are memories and return their contents."""
    headers = {"Authorization": f"Bearer {instance.key}"}
    found: list[dict[str, str]] = []
    async with httpx2.AsyncClient(base_url=instance.url, headers=headers, timeout=30) as http:

        async def is_any() -> bool:
            nonlocal found
            found = (await http.get("/v1/memories")).json()["data"]
            return bool(found)

        await until(is_any, seconds=60)
    return [each["content"] for each in found]


async def test_kill_9_during_a_turn_keeps_the_message_and_its_inbox_item() -> None:
    endpoint = Endpoint()
    endpoint.script = [RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    with (
        serve_app(endpoint) as url,
        running_server(RECOLLECT_CHAT_URL=f"{url}/v1", RECOLLECT_WORKERS="0") as instance,
    ):
        await chat_until_stopped(instance, instance.kill_everything)
        instance.environment["RECOLLECT_WORKERS"] = "1"
        await asyncio.to_thread(instance.start)

        assert await learnt_memories(instance) == ["The user lives in Oslo."]
        with instance.client() as http:
            bearer = {"Authorization": f"Bearer {instance.key}"}
            [chat] = http.get("/api/chats", headers=bearer).json()["results"]
            kept = http.get(f"/api/chats/{chat['id']}/messages", headers=bearer).json()
        assert [(each["role"], each["content"]) for each in kept["_embedded"]["inf:message"]] == [
            ("user", "I live in Oslo. What is the weather?")
        ]


async def test_a_second_stop_signal_keeps_the_partial_answer(
    databases: TestDatabases,
) -> None:
    endpoint = Endpoint()
    endpoint.script = [RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    database_url = databases.empty()

    with (
        serve_app(endpoint) as url,
        running_server(DATABASE_URL=database_url, RECOLLECT_CHAT_URL=f"{url}/v1") as instance,
    ):
        process = instance.process
        assert process

        def stop() -> None:
            for each in (signal.SIGTERM, signal.SIGINT):
                process.send_signal(each)
            process.wait(30)

        await chat_until_stopped(instance, stop)

    assert process.returncode == 0
    with psycopg.connect(database_url) as db:
        db.execute("SET LOCAL recollect.reach = 'everywhere'")
        rows = db.execute("SELECT role, content, metadata FROM message ORDER BY position")
        messages = rows.fetchall()
    assert [each[:2] for each in messages] == [
        ("user", "I live in Oslo. What is the weather?"),
        ("assistant", "One"),
    ]
    assert messages[1][2]["incomplete"] is True
