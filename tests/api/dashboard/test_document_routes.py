"""Documents on the dashboard: upload, show, download, search and delete."""

from collections.abc import AsyncIterator

import pytest

from recollect.core.domain import Caller
from recollect.documents.documents import MAX_BYTES, save_artifact
from recollect.tenancy.queries import orgs as orgs_queries
from recollect.tenancy.queries import workspaces as workspaces_queries
from tests.api.dashboard.conftest import Dashboard, Object
from tests.support.dashboard import connect_signed_in, error_of, new_user
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import in_new_workspace, new_caller
from tests.support.sample_files import UNTIDY, run_jobs
from tests.support.upstream import Answer, Call, Endpoint

pytestmark = pytest.mark.anyio

PLOVER = "The plover nests in March."


async def upload(dashboard: Dashboard, *files: tuple[str, bytes]) -> list[Object]:
    """Upload some files in one form."""
    form = [("file", (name, data, "text/html")) for name, data in files]
    response = await dashboard.http.post(f"{dashboard.workspace}/documents", files=form)
    assert response.status_code == 201, response.text
    return response.json()["items"]


async def test_N16_N18_files_are_stored_read_and_listed(dashboard: Dashboard) -> None:
    uploaded = await upload(dashboard, ("a.txt", PLOVER.encode()), ("b.bin", UNTIDY))
    await run_jobs(dashboard.engine)

    listed = (await dashboard.http.get(f"{dashboard.workspace}/documents")).json()

    assert [each["status"] for each in uploaded] == ["waiting", "waiting"]
    assert all(each["id"].startswith("cart_") and len(each["id"]) == 29 for each in uploaded)
    assert (listed["next_cursor"], listed["has_more"]) == (None, False)
    assert sorted(
        (each["name"], each["type"], each["size"], each["status"], each["chunks"])
        for each in listed["items"]
    ) == [
        ("a.txt", "text/plain", 26, "ready", 1),
        ("b.bin", "application/octet-stream", len(UNTIDY), "stored", 0),
    ]
    [text] = [each for each in listed["items"] if each["name"] == "a.txt"]
    assert (
        await dashboard.http.get(f"{dashboard.workspace}/documents/{text['id']}")
    ).json() == text
    shown = await dashboard.http.get(f"{dashboard.workspace}/documents/{text['id']}/text")
    assert shown.json() == {"text": PLOVER, "is_whole": True}


async def test_documents_are_listed_in_pages(dashboard: Dashboard) -> None:
    names = [f"{number}.txt" for number in range(5)]
    await upload(dashboard, *((name, name.encode()) for name in names))
    seen: list[str] = []
    cursor = None
    while True:
        query = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await dashboard.http.get(f"{dashboard.workspace}/documents", params=query)).json()
        seen += [each["name"] for each in page["items"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert sorted(seen) == names
    other = {"kind": "artifact", "cursor": "bm9uZQ"}
    response = await dashboard.http.get(f"{dashboard.workspace}/documents", params=other)
    assert error_of(response) == (400, "invalid_request")


async def test_S63_a_download_is_never_run_by_the_browser(dashboard: Dashboard) -> None:
    page = b"<!doctype html><script>alert(1)</script>"
    [uploaded] = await upload(dashboard, ('../<img src=x>";\r\n.html', page))
    await run_jobs(dashboard.engine)

    whole = await dashboard.http.get(f"{dashboard.workspace}/documents/{uploaded['id']}/content")
    part = await dashboard.http.get(
        f"{dashboard.workspace}/documents/{uploaded['id']}/content", headers={"range": "bytes=2-8"}
    )
    beyond = await dashboard.http.get(
        f"{dashboard.workspace}/documents/{uploaded['id']}/content", headers={"range": "bytes=99-"}
    )

    assert (whole.status_code, whole.content) == (200, page)
    assert whole.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert "<" not in whole.headers["content-disposition"]
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert (part.status_code, part.content) == (206, b"doctype")
    assert error_of(beyond) == (416, "range_not_satisfiable")
    assert "/" not in uploaded["name"]


async def test_R006_one_search_covers_every_kind(
    with_model: Dashboard, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "when": at_cosine(1.0),
        "A memory.": at_cosine(0.7, axis=1),
        PLOVER: at_cosine(0.9, axis=2),
        "An artifact.": at_cosine(0.8, axis=3),
        "Far off.": at_cosine(0.0, axis=4),
    }
    memory = await with_model.remember("A memory.")
    await with_model.remember("Far off.")
    [uploaded, _] = await upload(with_model, ("a.txt", PLOVER.encode()), ("b.txt", b"Far off."))
    plan = {"name": "plan.md", "content": "An artifact."}
    endpoint.script = [Answer(None, [Call("x_create_artifact", plan)])]
    turns = f"/chat/api/chats/chat_{with_model.thread.code}/turns"
    await with_model.http.post(turns, json={"content": "Write a plan."})
    await run_jobs(with_model.engine)
    kept = {"kind": "artifact"}
    listed = await with_model.http.get(f"{with_model.workspace}/documents", params=kept)
    [artifact] = listed.json()["items"]
    endpoint.script = [Answer(None, [Call("x_workspace_search", {"query": "when"})])]

    await with_model.http.post(turns, json={"content": "Look it up."})
    found = await with_model.http.get(f"{with_model.workspace}/search", params={"q": "when"})

    shown_to_model = endpoint.requests[-1].json["messages"][-1]["content"]
    assert shown_to_model.splitlines()[1:] == [
        f"1. **{uploaded['id']}** (document, a.txt, score 0.90)",
        PLOVER,
        f"2. **{artifact['id']}** (artifact, plan.md, score 0.80)",
        "An artifact.",
        f"3. **{memory['id']}** (memory, uncategorized, score 0.70)",
        "A memory.",
    ]
    assert [
        (each["kind"], each["id"], each["title"], each["score"]) for each in found.json()["results"]
    ] == [
        ("document", uploaded["id"], "a.txt", pytest.approx(0.9, abs=0.01)),
        ("artifact", artifact["id"], "plan.md", pytest.approx(0.8, abs=0.01)),
        ("memory", memory["id"], "", pytest.approx(0.7, abs=0.01)),
    ]


async def test_a_search_is_narrowed_to_types_and_paged(
    dashboard: Dashboard, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "when": at_cosine(1.0),
        "A memory.": at_cosine(0.7, axis=1),
        PLOVER: at_cosine(0.9, axis=2),
        "An artifact.": at_cosine(0.8, axis=3),
    }
    await dashboard.remember("A memory.")
    await upload(dashboard, ("a.txt", PLOVER.encode()))
    await save_artifact(dashboard.engine, dashboard.caller, "plan.md", "An artifact.")
    await run_jobs(dashboard.engine)
    query = {"q": "when", "types": "memory,artifact", "limit": "1"}

    pages = [
        await dashboard.http.get(f"{dashboard.workspace}/search", params=query | {"offset": offset})
        for offset in ("0", "1", "2")
    ]

    assert [[each["snippet"] for each in page.json()["results"]] for page in pages] == [
        ["An artifact."],
        ["A memory."],
        [],
    ]
    response = await dashboard.http.get(
        f"{dashboard.workspace}/search", params={"q": "x", "types": "song"}
    )
    assert error_of(response) == (400, "invalid_request")


async def test_N16_output_of_the_assistant_is_stored_as_an_artifact(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    plan = {"name": "../plan.md", "content": "# Plan\n\nLook for the plover in March."}
    endpoint.script = [Answer(None, [Call("x_create_artifact", plan)]), Answer("Kept.")]

    path = f"/chat/api/chats/chat_{with_model.thread.code}/turns"
    response = await with_model.http.post(path, json={"content": "Write a plan."})
    await run_jobs(with_model.engine)

    assert response.text.endswith("data: [DONE]\n\n")
    assert "x_create_artifact" in endpoint.requests[0].tools
    result = endpoint.requests[1].json["messages"][-1]["content"]
    listed = await with_model.http.get(
        f"{with_model.workspace}/documents", params={"kind": "artifact"}
    )
    [artifact] = listed.json()["items"]
    assert (artifact["name"], artifact["status"]) == ("plan.md", "ready")
    assert result == f"Stored as {artifact['id']}."
    found = await with_model.http.get(
        f"{with_model.workspace}/search", params={"q": "plover March"}
    )
    assert (found.json()["results"][0]["kind"], found.json()["results"][0]["id"]) == (
        "artifact",
        artifact["id"],
    )


async def test_a_deleted_document_is_not_found(dashboard: Dashboard) -> None:
    [uploaded] = await upload(dashboard, ("a.txt", PLOVER.encode()))
    await run_jobs(dashboard.engine)

    deleted = await dashboard.http.delete(f"{dashboard.workspace}/documents/{uploaded['id']}")

    assert deleted.status_code == 204
    for path in ("", "/text", "/content"):
        response = await dashboard.http.get(
            f"{dashboard.workspace}/documents/{uploaded['id']}{path}"
        )
        assert error_of(response) == (404, "document_not_found")
    found = await dashboard.http.get(f"{dashboard.workspace}/search", params={"q": "plover"})
    assert found.json()["results"] == []


async def test_S60_an_upload_over_the_limit_is_rejected(dashboard: Dashboard) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(MAX_BYTES // 65_536 + 8):
            yield b"x" * 65_536

    response = await dashboard.http.post(
        f"{dashboard.workspace}/documents",
        content=endless(),
        headers={"content-type": "multipart/form-data; boundary=x"},
    )

    assert error_of(response) == (413, "too_large")
    assert (await dashboard.http.get(f"{dashboard.workspace}/documents")).json()["items"] == []


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"no form at all"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="file"\r\n\r\nv\r\n--x--',
        ),
        ("application/json", b'{"file": "a"}'),
    ],
)
async def test_an_invalid_upload_form_is_rejected(
    dashboard: Dashboard, content_type: str, body: bytes
) -> None:
    response = await dashboard.http.post(
        f"{dashboard.workspace}/documents", content=body, headers={"content-type": content_type}
    )

    assert error_of(response) == (400, "invalid_request")


async def test_S30_an_upload_from_another_origin_is_denied(dashboard: Dashboard) -> None:
    response = await dashboard.http.post(
        f"{dashboard.workspace}/documents",
        files={"file": ("a.txt", b"x")},
        headers={"origin": "https://evil.example"},
    )

    assert response.status_code == 403


async def test_S41_documents_are_found_only_in_their_own_workspace(dashboard: Dashboard) -> None:
    [uploaded] = await upload(dashboard, ("a.txt", PLOVER.encode()))
    await run_jobs(dashboard.engine)
    closed = await in_new_workspace(dashboard.engine, dashboard.caller)
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    async with dashboard.engine.pool.everywhere() as db:
        await orgs_queries.set_workspaces(db, dashboard.caller.org_id, is_on=True)
        await workspaces_queries.add_workspace_member(db, closed.workspace_id, user_id)
    outsiders = [
        await new_caller(dashboard.engine),
        Caller(dashboard.caller.org_id, user_id, closed.workspace_id, frozenset()),
    ]
    paths = [("GET", ""), ("GET", "/text"), ("GET", "/content"), ("DELETE", "")]

    for outsider in outsiders:
        async with await connect_signed_in(dashboard.server, dashboard.engine, outsider) as http:
            for method, path in paths:
                for owner, error in [
                    (dashboard.caller, "workspace_not_found"),
                    (outsider, "document_not_found"),
                ]:
                    at = f"/chat/api/workspaces/ws_{owner.workspace_id}/documents/{uploaded['id']}"
                    assert error_of(await http.request(method, at + path)) == (404, error)
            for path in ("/documents", "/search?q=plover"):
                assert error_of(await http.get(dashboard.workspace + path)) == (
                    404,
                    "workspace_not_found",
                )
            form = {"file": ("a.txt", b"x")}
            response = await http.post(f"{dashboard.workspace}/documents", files=form)
            assert error_of(response) == (404, "workspace_not_found")
    listed = await dashboard.http.get(f"{dashboard.workspace}/documents")
    assert [each["name"] for each in listed.json()["items"]] == ["a.txt"]
