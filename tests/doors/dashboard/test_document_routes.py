"""Documents through the dashboard: sent as forms, shown, downloaded, searched, deleted."""

from collections.abc import AsyncIterator

import pytest

from recollect.domain import Caller
from recollect.engine.documents import MOST_BYTES, keep_artifact
from recollect.store import identity
from tests.doors.dashboard.conftest import Desk, Object
from tests.support.dashboard import browse, new_user, wrong
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import neighbour, new_caller
from tests.support.papers import UNTIDY, work
from tests.support.upstream import Call, Endpoint, Say

pytestmark = pytest.mark.anyio

PLOVER = "The plover nests in March."


async def send(desk: Desk, *files: tuple[str, bytes]) -> list[Object]:
    """Upload some files in one form."""
    form = [("file", (name, data, "text/html")) for name, data in files]
    answer = await desk.http.post(f"{desk.workspace}/documents", files=form)
    assert answer.status_code == 201, answer.text
    return answer.json()["items"]


async def test_N16_N18_files_are_kept_read_and_listed(desk: Desk) -> None:
    sent = await send(desk, ("a.txt", PLOVER.encode()), ("b.bin", UNTIDY))
    await work(desk.engine)

    listed = (await desk.http.get(f"{desk.workspace}/documents")).json()

    assert [each["status"] for each in sent] == ["waiting", "waiting"]
    assert all(each["id"].startswith("cart_") and len(each["id"]) == 29 for each in sent)
    assert (listed["next_cursor"], listed["has_more"]) == (None, False)
    assert sorted(
        (each["name"], each["type"], each["size"], each["status"], each["chunks"])
        for each in listed["items"]
    ) == [
        ("a.txt", "text/plain", 26, "ready", 1),
        ("b.bin", "application/octet-stream", len(UNTIDY), "stored", 0),
    ]
    [text] = [each for each in listed["items"] if each["name"] == "a.txt"]
    assert (await desk.http.get(f"{desk.workspace}/documents/{text['id']}")).json() == text
    shown = await desk.http.get(f"{desk.workspace}/documents/{text['id']}/text")
    assert shown.json() == {"text": PLOVER, "is_whole": True}


async def test_documents_are_listed_page_by_page(desk: Desk) -> None:
    names = [f"{number}.txt" for number in range(5)]
    await send(desk, *((name, name.encode()) for name in names))
    seen: list[str] = []
    cursor = None
    while True:
        query = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await desk.http.get(f"{desk.workspace}/documents", params=query)).json()
        seen += [each["name"] for each in page["items"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert sorted(seen) == names
    other = {"kind": "artifact", "cursor": "bm9uZQ"}
    answer = await desk.http.get(f"{desk.workspace}/documents", params=other)
    assert wrong(answer) == (400, "invalid_request")


async def test_S63_a_download_is_kept_and_never_run(desk: Desk) -> None:
    page = b"<!doctype html><script>alert(1)</script>"
    [sent] = await send(desk, ('../<img src=x>";\r\n.html', page))
    await work(desk.engine)

    whole = await desk.http.get(f"{desk.workspace}/documents/{sent['id']}/content")
    part = await desk.http.get(
        f"{desk.workspace}/documents/{sent['id']}/content", headers={"range": "bytes=2-8"}
    )
    beyond = await desk.http.get(
        f"{desk.workspace}/documents/{sent['id']}/content", headers={"range": "bytes=99-"}
    )

    assert (whole.status_code, whole.content) == (200, page)
    assert whole.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert "<" not in whole.headers["content-disposition"]
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert (part.status_code, part.content) == (206, b"doctype")
    assert wrong(beyond) == (416, "range_not_satisfiable")
    assert "/" not in sent["name"]


async def test_R006_one_search_answers_every_kind(desk: Desk, embedder: StubEmbedder) -> None:
    embedder.table = {
        "when": at_cosine(1.0),
        "A memory.": at_cosine(0.7, turn=1),
        PLOVER: at_cosine(0.9, turn=2),
        "An artifact.": at_cosine(0.8, turn=3),
    }
    made = await desk.remember("A memory.")
    [sent] = await send(desk, ("a.txt", PLOVER.encode()))
    artifact = await keep_artifact(desk.engine, desk.caller, "plan.md", "An artifact.")
    await work(desk.engine)

    found = (await desk.http.get(f"{desk.workspace}/search", params={"q": "when"})).json()

    assert [
        (each["kind"], each["id"], each["title"], each["score"]) for each in found["results"]
    ] == [
        ("document", sent["id"], "a.txt", pytest.approx(0.9, abs=0.01)),
        ("artifact", f"cart_{artifact.code}", "plan.md", pytest.approx(0.8, abs=0.01)),
        ("memory", made["id"], "", pytest.approx(0.7, abs=0.01)),
    ]
    query = {"q": "when", "types": "memory,artifact", "limit": "1", "offset": "1"}
    narrowed = (await desk.http.get(f"{desk.workspace}/search", params=query)).json()
    assert [each["snippet"] for each in narrowed["results"]] == ["A memory."]
    answer = await desk.http.get(f"{desk.workspace}/search", params={"q": "x", "types": "song"})
    assert wrong(answer) == (400, "invalid_request")


async def test_N16_what_the_assistant_makes_is_kept_as_an_artifact(
    modelled: Desk, endpoint: Endpoint
) -> None:
    plan = {"name": "../plan.md", "content": "# Plan\n\nLook for the plover in March."}
    endpoint.script = [Say(None, [Call("x_create_artifact", plan)]), Say("Kept.")]

    path = f"/chat/api/chats/chat_{modelled.thread.code}/turns"
    answer = await modelled.http.post(path, json={"content": "Write a plan."})
    await work(modelled.engine)

    assert answer.text.endswith("data: [DONE]\n\n")
    assert "x_create_artifact" in endpoint.asked[0].tools
    told = endpoint.asked[1].json["messages"][-1]["content"]
    listed = await modelled.http.get(f"{modelled.workspace}/documents", params={"kind": "artifact"})
    [kept] = listed.json()["items"]
    assert (kept["name"], kept["status"]) == ("plan.md", "ready")
    assert told == f"Kept as {kept['id']}."
    found = await modelled.http.get(f"{modelled.workspace}/search", params={"q": "plover March"})
    assert (found.json()["results"][0]["kind"], found.json()["results"][0]["id"]) == (
        "artifact",
        kept["id"],
    )


async def test_a_deleted_document_is_gone(desk: Desk) -> None:
    [sent] = await send(desk, ("a.txt", PLOVER.encode()))
    await work(desk.engine)

    gone = await desk.http.delete(f"{desk.workspace}/documents/{sent['id']}")

    assert gone.status_code == 204
    for path in ("", "/text", "/content"):
        answer = await desk.http.get(f"{desk.workspace}/documents/{sent['id']}{path}")
        assert wrong(answer) == (404, "document_not_found")
    found = await desk.http.get(f"{desk.workspace}/search", params={"q": "plover"})
    assert found.json()["results"] == []


async def test_S60_a_body_beyond_the_bound_is_cut_off(desk: Desk) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(MOST_BYTES // 65_536 + 8):
            yield b"x" * 65_536

    answer = await desk.http.post(
        f"{desk.workspace}/documents",
        content=endless(),
        headers={"content-type": "multipart/form-data; boundary=x"},
    )

    assert wrong(answer) == (413, "too_large")
    assert (await desk.http.get(f"{desk.workspace}/documents")).json()["items"] == []


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
async def test_what_is_no_form_with_files_is_refused(
    desk: Desk, content_type: str, body: bytes
) -> None:
    answer = await desk.http.post(
        f"{desk.workspace}/documents", content=body, headers={"content-type": content_type}
    )

    assert wrong(answer) == (400, "invalid_request")


async def test_another_sites_page_uploads_nothing(desk: Desk) -> None:
    answer = await desk.http.post(
        f"{desk.workspace}/documents",
        files={"file": ("a.txt", b"x")},
        headers={"origin": "https://evil.example"},
    )

    assert answer.status_code == 403


async def test_S41_documents_are_reached_from_inside_their_workspace_alone(desk: Desk) -> None:
    [sent] = await send(desk, ("a.txt", PLOVER.encode()))
    await work(desk.engine)
    closed = await neighbour(desk.engine, desk.caller)
    user_id, _ = await new_user(desk.engine, desk.caller)
    async with desk.engine.pool.everywhere() as db:
        await identity.set_workspaces(db, desk.caller.org_id, is_on=True)
        await identity.add_workspace_member(db, closed.workspace_id, user_id)
    outsiders = [
        await new_caller(desk.engine),
        Caller(desk.caller.org_id, user_id, closed.workspace_id, frozenset()),
    ]
    paths = [("GET", ""), ("GET", "/text"), ("GET", "/content"), ("DELETE", "")]

    for outsider in outsiders:
        async with await browse(desk.server, desk.engine, outsider) as http:
            for method, path in paths:
                for place, thing in [
                    (desk.caller, "workspace_not_found"),
                    (outsider, "document_not_found"),
                ]:
                    at = f"/chat/api/workspaces/ws_{place.workspace_id}/documents/{sent['id']}"
                    assert wrong(await http.request(method, at + path)) == (404, thing)
            for path in ("/documents", "/search?q=plover"):
                assert wrong(await http.get(desk.workspace + path)) == (404, "workspace_not_found")
            form = {"file": ("a.txt", b"x")}
            answer = await http.post(f"{desk.workspace}/documents", files=form)
            assert wrong(answer) == (404, "workspace_not_found")
    listed = await desk.http.get(f"{desk.workspace}/documents")
    assert [each["name"] for each in listed.json()["items"]] == ["a.txt"]
