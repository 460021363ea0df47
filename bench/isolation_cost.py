"""Measure the cost of isolation: queries with and without the predicate and row-level security.

`python -m bench.isolation_cost` fills a separate PostgreSQL with several workspaces and runs each
query as the product does, as a superuser (who bypasses row-level security), and without the
predicate that decides who sees a row. They alternate in one run, so that other load on the machine
affects all of them alike.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

from recollect.core.domain import Caller, OrgId, Right, UserId, WorkspaceId
from recollect.db.migrate import migrate
from recollect.db.pool import Pool, connect
from recollect.db.visibility import VISIBLE, visibility_values
from recollect.embedded import attach
from recollect.tenancy.queries import orgs, users, workspaces

_SEED = """
    INSERT INTO memory (
        workspace_id, id, code, org_id, user_id, project_id, content, importance,
        importance_base, lifecycle, scope, origin, content_digest, created_at, updated_at
    )
    SELECT %(workspace_id)s, gen_random_uuid(),
        substr(md5(n::text || %(workspace_id)s::text) || md5(n::text), 1, 24), %(org_id)s,
        %(user_id)s, CASE WHEN n %% 10 = 0 THEN %(project_id)s::uuid END, 'memory number ' || n,
        0.5, 0.5, 'permanent',
        CASE WHEN n %% 10 = 0 THEN 'project' WHEN n %% 10 = 1 THEN 'global' ELSE 'workspace' END,
        'user', sha256(n::text::bytea), now() - n * interval '1 second', now()
    FROM generate_series(1, %(count)s) AS n
"""
_CODES = "SELECT code FROM memory WHERE workspace_id = %(workspace_id)s LIMIT 500"
_PROJECT = """
    INSERT INTO project (workspace_id, id, name, created_at)
    VALUES (%(workspace_id)s, %(project_id)s, 'apollo', now())
"""
_MEMBER = """
    INSERT INTO project_member (workspace_id, project_id, user_id, created_at)
    VALUES (%(workspace_id)s, %(project_id)s, %(user_id)s, now())
"""
_ALIVE = "m.deleted_at IS NULL"
_ONE = (
    "SELECT m.* FROM memory m WHERE m.workspace_id = %(workspace_id)s AND m.short_code = %(code)s"
)
_PAGE = "SELECT m.* FROM memory m WHERE m.workspace_id = %(workspace_id)s"
_NEWEST = "ORDER BY m.created_at DESC, m.id DESC LIMIT 20"
_COUNT = "SELECT count(*) FROM memory m WHERE m.workspace_id = %(workspace_id)s"
# Each query with the predicate, and without it (any live row of the workspace).
_QUERIES: dict[str, tuple[LiteralString, LiteralString]] = {
    "one by its code": (f"{_ONE} AND {VISIBLE}", f"{_ONE} AND {_ALIVE}"),
    "a page of 20": (f"{_PAGE} AND {VISIBLE} {_NEWEST}", f"{_PAGE} AND {_ALIVE} {_NEWEST}"),
    "count of all": (f"{_COUNT} AND {VISIBLE}", f"{_COUNT} AND {_ALIVE}"),
}


async def measure(memories_each: int, rounds: int) -> None:
    """Fill the database, run the queries and print the times."""
    with tempfile.TemporaryDirectory(prefix="isolation-") as home:
        os.chmod(home, 0o711)  # noqa: PTH101 - the server's user must be able to enter it
        attached = await asyncio.to_thread(attach, Path(home) / "data")
        try:
            await migrate(attached.url)
            bound, free = Pool(attached.url, size=2), Pool(attached.admin_url, size=2)
            await bound.open()
            await free.open()
            try:
                caller, codes = await fill(bound, memories_each)
                # Like an instance that has run for a while: its pages are marked all-visible.
                async with await connect(attached.admin_url) as db:
                    await db.execute("VACUUM (ANALYZE) memory")
                await compare(bound, free, caller, codes, rounds)
            finally:
                await bound.close()
                await free.close()
        finally:
            await asyncio.to_thread(attached.detach)


async def fill(pool: Pool, count: int) -> tuple[Caller, list[str]]:
    """Fill four workspaces; return a caller in the first one and codes to look up."""
    found: list[tuple[Caller, list[str]]] = []
    for number in range(4):
        async with pool.everywhere() as db:
            org_id = await orgs.add_org(db, f"org {number}")
            user_id = await users.add_user(
                db, org_id, f"user {number}", password_hash=None, is_admin=True
            )
            workspace_id = await workspaces.add_workspace(db, org_id, "default", is_default=True)
            values = {
                "workspace_id": workspace_id,
                "org_id": org_id,
                "user_id": user_id,
                "project_id": uuid4(),
                "count": count,
            }
            for statement in (_PROJECT, _MEMBER, _SEED):
                await db.execute(statement, values)
            rows = await (await db.execute(_CODES, values)).fetchall()
            found.append((_caller(org_id, user_id, workspace_id), [row[0] for row in rows]))
    return found[0]


async def compare(bound: Pool, free: Pool, caller: Caller, codes: list[str], rounds: int) -> None:
    """Run each query in every way, alternating; print medians and ratios."""
    values = visibility_values(caller, datetime.now(UTC))
    print("| query | as it is, ms | without row security | without the predicate | without both |")
    print("|---|---|---|---|---|")
    for name, (seen, all_see) in _QUERIES.items():
        ways: Sequence[tuple[Pool, LiteralString]] = (
            (bound, seen),
            (free, seen),
            (bound, all_see),
            (free, all_see),
        )
        times: list[list[float]] = [[] for _ in ways]
        for number in range(rounds):
            parameters = values | {"code": codes[number % len(codes)][:12]}
            for index, (pool, query) in enumerate(ways):
                async with pool.reading(caller.workspace_id) as db:
                    began = time.perf_counter()
                    await (await db.execute(query, parameters)).fetchall()
                    times[index].append((time.perf_counter() - began) * 1000)
        medians = [statistics.median(each) for each in times]
        cells = " | ".join(f"{each:.2f} ({medians[0] / each:.2f})" for each in medians[1:])
        print(f"| {name} | {medians[0]:.2f} | {cells} |")


def _caller(org_id: OrgId, user_id: UserId, workspace_id: WorkspaceId) -> Caller:
    return Caller(org_id, user_id, workspace_id, frozenset(Right))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000, help="in each of four workspaces")
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    asyncio.run(measure(args.memories, args.rounds))


if __name__ == "__main__":
    main()
