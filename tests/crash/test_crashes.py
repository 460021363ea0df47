"""Acknowledged data survives kill -9 of everything."""

import asyncio
import random
import time

import httpx2
import psycopg
import pytest

from recollect.embedded import attach
from tests.support.database import TestDatabases
from tests.support.serve_process import ServeProcess, running_server
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = 6
WRITERS = 6


async def write(instance: ServeProcess, acknowledged: list[dict[str, str]], seed: int) -> None:
    """Save memories until the server is gone and record those it acknowledged."""
    headers = {"X-API-Key": instance.key}
    async with httpx2.AsyncClient(base_url=instance.url, headers=headers, timeout=30) as http:
        number = 0
        while True:
            number += 1
            text = f"writer {seed} said sentence number {number} in round {len(acknowledged)}"
            try:
                answer = await http.post("/v1/memories", json={"content": text})
            except httpx2.TransportError:
                return
            if answer.status_code == 201:
                acknowledged.append({"id": answer.json()["id"], "content": text})


async def list_memories(instance: ServeProcess) -> dict[str, str]:
    """Return every memory by paging through the list."""
    found: dict[str, str] = {}
    headers = {"X-API-Key": instance.key}
    async with httpx2.AsyncClient(base_url=instance.url, headers=headers, timeout=30) as http:
        after: dict[str, str] = {}
        while True:
            page = (await http.get("/v1/memory", params={"limit": "100", **after})).json()
            found |= {memory["id"]: memory["content"] for memory in page["data"]}
            if not page["has_more"]:
                return found
            after = {"starting_after": page["last_id"]}


async def test_acknowledged_memories_survive_repeated_kill_9() -> None:
    dice = random.Random(20_260_301)
    acknowledged: list[dict[str, str]] = []
    with running_server() as instance:
        for kill in range(KILLS):
            writers = [
                asyncio.create_task(write(instance, acknowledged, kill * WRITERS + seed))
                for seed in range(WRITERS)
            ]
            before = len(acknowledged)
            await until(lambda before=before: len(acknowledged) > before)
            # A random delay: the kill must hit an arbitrary moment.
            await asyncio.sleep(dice.uniform(0.0, 0.8))
            await asyncio.to_thread(instance.kill_everything)
            await asyncio.gather(*writers)
            await asyncio.to_thread(instance.start)

        survived = await list_memories(instance)

    assert {each["id"]: survived.get(each["id"]) for each in acknowledged} == {
        each["id"]: each["content"] for each in acknowledged
    }


# Every memory has the recorded number of postings, the totals is their sum, and each memory has a
# vector or a queued job that will add it.
CONSISTENCY = """
    SELECT
        (SELECT count(*) FROM memory) AS memories,
        (SELECT count(*) FROM memory JOIN memory_terms USING (workspace_id)
         WHERE memory.id = memory_terms.memory_id) AS with_terms,
        (SELECT sum(documents) FROM keyword_total) AS tallied,
        (SELECT sum(cardinality(terms)) FROM memory_terms)
            = (SELECT count(*) FROM memory_word) AS postings_agree,
        (SELECT sum(length) FROM memory_terms) = (SELECT sum(length) FROM keyword_total)
            AS lengths_agree,
        (SELECT count(*) FROM memory_vector)
            = (SELECT count(*) FROM memory)
        OR EXISTS (SELECT FROM job WHERE kind = 'fill_vectors' AND status <> 'done')
            AS vectors_exist_or_are_queued
"""


async def test_postings_and_vectors_match_the_memories_after_kill_9() -> None:
    with running_server() as instance:
        acknowledged: list[dict[str, str]] = []
        writers = [asyncio.create_task(write(instance, acknowledged, seed)) for seed in range(4)]
        await until(lambda: len(acknowledged) >= 40)
        await asyncio.to_thread(instance.kill_everything)
        await asyncio.gather(*writers)

        attached = await asyncio.to_thread(attach, instance.data_dir)
        with attached, psycopg.connect(attached.admin_url) as db:
            row = db.execute(CONSISTENCY).fetchone()
        await asyncio.to_thread(instance.start)

    assert row
    memories = row[0]
    assert memories >= 40
    assert row == (memories, memories, memories, True, True, True)


async def test_two_servers_share_one_database(databases: TestDatabases) -> None:
    # A new database, because only the first start on an empty one prints a key.
    database_url = databases.clone()
    with (
        running_server(DATABASE_URL=database_url) as one,
        running_server(DATABASE_URL=database_url) as other,
    ):
        other.key = one.key = one.key or other.key
        with one.client() as here, other.client() as there:
            saved = here.post("/v1/memories", json={"content": "Ada takes her tea black"}).json()
            read = there.get(f"/v1/memory/{saved['id']}").json()
            there.patch(f"/v1/memory/{saved['id']}", json={"tags": ["tea"]})
            seen = here.get("/v1/memory", params={"tags": "tea"}).json()

            assert there.delete(f"/v1/memory/{saved['id']}").status_code == 204
            gone = here.get(f"/v1/memory/{saved['id']}")

    assert read == saved
    assert [memory["id"] for memory in seen["data"]] == [saved["id"]]
    assert gone.status_code == 404


async def test_a_server_stops_cleanly_and_restarts_in_seconds() -> None:
    with running_server() as instance:
        with instance.client() as http:
            saved = http.post("/v1/memories", json={"content": "Ada takes her tea black"}).json()

        code = instance.stop()
        began = time.monotonic()
        instance.start()
        took = time.monotonic() - began
        with instance.client() as http:
            read = http.get(f"/v1/memory/{saved['id']}").json()

    assert code == 0
    assert read == saved
    assert took < 60  # only a guard against hanging; bench/ measures the speed
