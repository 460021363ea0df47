"""The audit log has an event for every action that matters for security, and no text."""

import pytest

from recollect.engine import Engine
from recollect.server import Server
from tests.support.dashboard import PASSWORD, connect_from, new_user
from tests.support.instance import ApiClient
from tests.support.statebase import create_memory
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

SECRET = "plover"


async def test_S83_every_action_that_matters_for_security_is_audited_without_text(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    http, caller = client.http, client.caller
    memory = await create_memory(http, f"{SECRET} one", key=SECRET)
    forgotten = await create_memory(http, f"{SECRET} two")
    user_id, login = await new_user(engine, caller, password=PASSWORD)
    key = (await http.post("/v1/admin/keys", json={"name": SECRET, "rights": ["read"]})).json()
    requests = [
        http.patch(f"/v1/memory/{memory['id']}", json={"content": f"{SECRET} three"}),
        http.post("/v1/tools/memory_delete", json={"memory_id": forgotten["id"]}),
        http.delete(f"/v1/memory/{memory['id']}"),
        http.post(f"/v1/admin/keys/{key['id']}/rotate", json={"keep_hours": 0}),
        http.post(f"/v1/admin/keys/{SECRET}/revoke"),
        http.patch(f"/v1/admin/orgs/{caller.org_id}", json={"name": SECRET}),
        http.get("/api/v1/export", headers={"Authorization": f"Bearer {client.key}"}),
        http.post("/v1/admin/erasures", json={"user": str(user_id)}),
    ]

    async with connect_from(server) as browser:
        sign_in = {"username": login, "password": PASSWORD}
        assert (await browser.post("/login", json=sign_in)).status_code == 204
    responses = [await request for request in requests]

    assert [each.text for each in responses if not each.is_success] == []
    events = await fetch_rows(
        engine,
        "SELECT action, actor, event::text FROM event WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert {action for action, _, _ in events} >= {
        "data.exported",
        "key.created",
        "key.revoked",
        "key.rotated",
        "memory.created",
        "memory.deleted",
        "memory.forgotten",
        "memory.updated",
        "org.changed",
        "user.erased",
        "user.signed_in",
    }
    assert all(actor for _, actor, _ in events)
    assert [row for _, _, row in events if SECRET in row] == []
