"""Nothing acknowledged is ever lost: not by kill -9, a dead embedder, or a worker's sudden end."""

import asyncio
import random
import time

import httpx2
import psycopg
import pytest

from recollect.embedded import attach
from tests.support.database import TestDatabases
from tests.support.running import Running, running_house
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = 6
WRITERS = 6


async def write(house: Running, acknowledged: list[dict[str, str]], seed: int) -> None:
    """Save, change and repeat until the server is gone, noting what was acknowledged."""
    headers = {"X-API-Key": house.key}
    async with httpx2.AsyncClient(base_url=house.url, headers=headers, timeout=30) as http:
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


async def kept(house: Running) -> dict[str, str]:
    """Every memory there is, by walking the list."""
    found: dict[str, str] = {}
    headers = {"X-API-Key": house.key}
    async with httpx2.AsyncClient(base_url=house.url, headers=headers, timeout=30) as http:
        after: dict[str, str] = {}
        while True:
            page = (await http.get("/v1/memory", params={"limit": "100", **after})).json()
            found |= {memory["id"]: memory["content"] for memory in page["data"]}
            if not page["has_more"]:
                return found
            after = {"starting_after": page["last_id"]}


async def test_every_acknowledged_memory_survives_kill_9_of_everything_many_times() -> None:
    dice = random.Random(20_260_301)
    acknowledged: list[dict[str, str]] = []
    with running_house() as house:
        for kill in range(KILLS):
            writers = [
                asyncio.create_task(write(house, acknowledged, kill * WRITERS + seed))
                for seed in range(WRITERS)
            ]
            before = len(acknowledged)
            await until(lambda before=before: len(acknowledged) > before)
            # Not a wait for something: the moment of the cut must be any moment.
            await asyncio.sleep(dice.uniform(0.0, 0.8))
            await asyncio.to_thread(house.kill_everything)
            await asyncio.gather(*writers)
            await asyncio.to_thread(house.start)

        survived = await kept(house)

    assert {each["id"]: survived.get(each["id"]) for each in acknowledged} == {
        each["id"]: each["content"] for each in acknowledged
    }


# Every memory has its postings, as many as were noted for it; the tally is their sum; and each has
# its vector or a job that will make it.
AGREES = """
    SELECT
        (SELECT count(*) FROM memory) AS memories,
        (SELECT count(*) FROM memory JOIN memory_terms USING (workspace_id)
         WHERE memory.id = memory_terms.memory_id) AS with_terms,
        (SELECT sum(documents) FROM word_tally) AS tallied,
        (SELECT sum(cardinality(terms)) FROM memory_terms)
            = (SELECT count(*) FROM memory_word) AS postings_agree,
        (SELECT sum(length) FROM memory_terms) = (SELECT sum(length) FROM word_tally)
            AS lengths_agree,
        (SELECT count(*) FROM memory_vector)
            = (SELECT count(*) FROM memory)
        OR EXISTS (SELECT FROM job WHERE kind = 'tend_vectors' AND status <> 'done')
            AS vectors_are_there_or_owed
"""


async def test_after_kill_9_words_and_vectors_agree_with_the_memories() -> None:
    with running_house() as house:
        acknowledged: list[dict[str, str]] = []
        writers = [asyncio.create_task(write(house, acknowledged, seed)) for seed in range(4)]
        await until(lambda: len(acknowledged) >= 40)
        await asyncio.to_thread(house.kill_everything)
        await asyncio.gather(*writers)

        attached = await asyncio.to_thread(attach, house.data_dir)
        with attached, psycopg.connect(attached.admin_url) as db:
            row = db.execute(AGREES).fetchone()
        await asyncio.to_thread(house.start)

    assert row
    memories = row[0]
    assert memories >= 40
    assert row == (memories, memories, memories, True, True, True)


async def test_two_servers_beside_each_other_serve_one_memory(databases: TestDatabases) -> None:
    # Of its own: only the first start on an empty one tells a key.
    database_url = databases.clone()
    with (
        running_house(DATABASE_URL=database_url) as one,
        running_house(DATABASE_URL=database_url) as other,
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


async def test_a_stopped_server_ends_cleanly_and_starts_again_in_seconds() -> None:
    with running_house() as house:
        with house.client() as http:
            saved = http.post("/v1/memories", json={"content": "Ada takes her tea black"}).json()

        code = house.stop()
        began = time.monotonic()
        house.start()
        took = time.monotonic() - began
        with house.client() as http:
            read = http.get(f"/v1/memory/{saved['id']}").json()

    assert code == 0
    assert read == saved
    assert took < 60  # a bound against hanging; bench/ says how fast it is
