"""A server that ends in the middle of a turn: what the user said and what was to be learnt stay."""

import asyncio
import signal
from collections.abc import Callable

import httpx2
import psycopg
import pytest

from tests.support.database import TestDatabases
from tests.support.live import on_a_port
from tests.support.running import Running, running_house
from tests.support.upstream import Endpoint, Raw, Say
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

THREAD = "killed"


async def talk_until_it_ends(house: Running, end: Callable[[], None]) -> None:
    """Ask, see the first words, and end it."""
    headers = {"Authorization": f"Bearer {house.key}", "X-Recollect-Thread": THREAD}
    said = [{"role": "user", "content": "I live in Oslo. What is the weather?"}]
    body = {"model": "m1", "messages": said, "stream": True}
    async with (
        httpx2.AsyncClient(base_url=house.url, headers=headers, timeout=30) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200
        with pytest.raises(httpx2.TransportError):
            async for line in answer.aiter_lines():
                if "One" in line:
                    await asyncio.to_thread(end)


async def learnt(house: Running) -> list[str]:
    """What is remembered, once anything is."""
    headers = {"Authorization": f"Bearer {house.key}"}
    found: list[dict[str, str]] = []
    async with httpx2.AsyncClient(base_url=house.url, headers=headers, timeout=30) as http:

        async def is_any() -> bool:
            nonlocal found
            found = (await http.get("/v1/memories")).json()["data"]
            return bool(found)

        await until(is_any, seconds=60)
    return [each["content"] for each in found]


async def test_kill_9_in_mid_turn_loses_neither_the_message_nor_its_lesson() -> None:
    endpoint = Endpoint()
    endpoint.script = [Raw(Say("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    with (
        on_a_port(endpoint) as url,
        running_house(RECOLLECT_CHAT_URL=f"{url}/v1", RECOLLECT_WORKERS="0") as house,
    ):
        await talk_until_it_ends(house, house.kill_everything)
        house.environment["RECOLLECT_WORKERS"] = "1"
        await asyncio.to_thread(house.start)

        assert await learnt(house) == ["The user lives in Oslo."]
        with house.client() as http:
            bearer = {"Authorization": f"Bearer {house.key}"}
            [chat] = http.get("/api/chats", headers=bearer).json()["results"]
            kept = http.get(f"/api/chats/{chat['id']}/messages", headers=bearer).json()
        assert [(each["role"], each["content"]) for each in kept["_embedded"]["inf:message"]] == [
            ("user", "I live in Oslo. What is the weather?")
        ]


async def test_one_told_twice_to_leave_keeps_as_much_of_the_answer_as_there_was(
    databases: TestDatabases,
) -> None:
    endpoint = Endpoint()
    endpoint.script = [Raw(Say("One two.").events("m1", with_usage=False)[:2], hangs=True)]
    database_url = databases.empty()

    with (
        on_a_port(endpoint) as url,
        running_house(DATABASE_URL=database_url, RECOLLECT_CHAT_URL=f"{url}/v1") as house,
    ):
        process = house.process
        assert process

        def leave() -> None:
            for told in (signal.SIGTERM, signal.SIGINT):
                process.send_signal(told)
            process.wait(30)

        await talk_until_it_ends(house, leave)

    assert process.returncode == 0
    with psycopg.connect(database_url) as db:
        db.execute("SET LOCAL recollect.reach = 'everywhere'")
        kept = db.execute("SELECT role, content, metadata FROM message ORDER BY position")
        said = kept.fetchall()
    assert [each[:2] for each in said] == [
        ("user", "I live in Oslo. What is the weather?"),
        ("assistant", "One"),
    ]
    assert said[1][2]["incomplete"] is True
