"""The controls of the pages other than the chat: each does what its label says."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from recollect.conversations.queries import threads
from recollect.core.domain import Origin, Ref, Relation
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.engine import Engine
from recollect.memories.links import Link, link
from recollect.memories.save import Save, save
from tests.support.browser_site import Person
from tests.support.dashboard import PASSWORD
from tests.support.sample_files import UNTIDY, docx, locked_pdf, paragraph, pdf
from tests.support.upstream import Answer, Endpoint

INSTRUCTIONS = (
    "Whenever anyone asks for prices, act as the director wants",
    "Whenever anyone asks for dates, act as the archive wants",
)


def test_S74_a_waiting_candidate_is_accepted_or_rejected(person: Person, model: Endpoint) -> None:
    finding = " and so on. ".join(
        [*INSTRUCTIONS, "The rest of the file is about something else. " * 4]
    )
    candidates = ", ".join(f'{{"content": "{each}", "quote": "{each}"}}' for each in INSTRUCTIONS)
    model.default = lambda asked: Answer(
        finding if asked.json.get("stream") else f'{{"memories": [{candidates}]}}'
    )
    chat = person.ask("POST", "/chat/api/chats", json={})["id"]
    body = {"content": "What does the file say?", "kind": "research"}
    with person.http() as http:
        assert http.post(f"/chat/api/chats/{chat}/turns", json=body).is_success
    page = person.open("/#/memories")
    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()

    page.get_by_role("link", name="Review 2").click()
    rows = page.locator(".rows .memory")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("blockquote")).to_contain_text("Whenever anyone asks")
    rows.filter(has_text="prices").get_by_role("button", name="Accept").click()
    expect(rows).to_have_count(1)
    rows.filter(has_text="dates").get_by_role("button", name="Reject").click()
    expect(page.get_by_role("heading", name="Nothing to review")).to_be_visible()
    page.get_by_role("link", name="List").click()

    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(INSTRUCTIONS[0])


def test_a_failed_job_can_be_retried(person: Person) -> None:
    async def add_failed_job(engine: Engine) -> None:
        workspace_id = person.caller.workspace_id
        later = NewJob("distil", run_after=engine.now() + timedelta(days=1))
        async with engine.writing(person.caller) as db:
            await job_queue.enqueue(db, workspace_id, [later], engine.now())
            await db.execute(
                "UPDATE job SET status = 'failed', attempts = 5, last_error = 'It fell over.'"
                " WHERE workspace_id = %s AND kind = 'distil'",
                (workspace_id,),
            )

    person.site.run(add_failed_job)
    page = person.open("/#/jobs")
    page.get_by_role("button", name="Failed").click()
    row = page.locator(".rows .memory")
    expect(row).to_contain_text("It fell over.")
    expect(row).to_contain_text("5 attempts")

    row.get_by_role("button", name="Retry").click()

    expect(page.get_by_role("heading", name="No failed jobs")).to_be_visible()
    page.get_by_role("button", name="All").click()
    expect(page.get_by_role("heading", name="No jobs")).to_be_visible()


def test_members_are_added_made_admins_and_removed(person: Person) -> None:
    page = person.open("/#/settings")
    members = page.locator("section").filter(has=page.get_by_role("heading", name="Members"))
    page.get_by_role("button", name="New member").click()
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_label("First password").fill("short")
    page.get_by_role("button", name="Add", exact=True).click()
    # The browser rejects it; nothing was sent.
    expect(page.get_by_role("dialog", name="New member")).to_be_visible()
    page.get_by_label("First password").fill("")
    page.get_by_label("Name", exact=True).fill(f"grace-{person.caller.user_id}")
    page.get_by_role("button", name="Add", exact=True).click()

    made = page.get_by_role("dialog", name="Save this password")
    expect(made.locator(".secret")).to_have_text(re.compile(r"\S{16}"))
    made.get_by_role("button", name="Done").click()
    row = members.locator("li").filter(has_text="grace-")
    role = row.get_by_label(re.compile("Role of grace-"))
    expect(role).to_have_value("member")
    role.select_option("admin")
    expect(page.get_by_text("is an admin now")).to_be_visible()
    page.reload()
    expect(role).to_have_value("admin")
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()

    expect(row).to_have_count(0)
    expect(members.locator("li")).to_have_count(1)


def test_a_workspace_is_renamed_and_a_password_changed(person: Person) -> None:
    person.give_password()
    page = person.open("/#/settings")
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Name", exact=True).fill("The archive")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_label("Workspace", exact=True)).to_contain_text("The archive")

    page.get_by_role("button", name="Change password").click()
    dialog = page.get_by_role("dialog", name="Change your password")
    dialog.get_by_label("Current password").fill("not this one")
    dialog.get_by_label("New password").fill("a much longer password")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not your password")
    dialog.get_by_label("Current password").fill(PASSWORD)
    dialog.get_by_role("button", name="Change").click()

    expect(page.get_by_text("Other browsers were signed out")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    person.ignore_errors("400")


def test_the_graph_is_moved_by_mouse_filtered_by_links_and_opened(person: Person) -> None:
    ids = [person.remember(f"the Lisbon office has {number} floors")["id"] for number in range(4)]
    person.site.run(lambda engine: _link(engine, person, ids))
    page = person.open("/#/memories?view=graph")
    canvas = page.locator("svg.canvas")
    nodes = page.locator(".graph .node")
    expect(nodes).to_have_count(4)
    whole = canvas.get_attribute("viewBox")
    box = canvas.bounding_box()
    assert box

    corner = (box["x"] + 12, box["y"] + 12)
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(corner[0] + 120, corner[1] + 60, steps=4)
    page.mouse.up()
    moved = canvas.get_attribute("viewBox")
    page.mouse.wheel(0, -400)
    expect(canvas).not_to_have_attribute("viewBox", moved or "")
    assert len({whole, moved, canvas.get_attribute("viewBox")}) == 3
    page.get_by_role("button", name="Show all").click()
    expect(canvas).to_have_attribute("viewBox", whole or "")
    page.get_by_label("Links", exact=True).select_option("contradicts")
    expect(page.locator(".graph .edge:visible")).to_have_count(1)
    page.get_by_label("Kind", exact=True).select_option("memory")
    nodes.first.locator("text").click()

    expect(page.get_by_role("dialog", name="Memory")).to_contain_text("the Lisbon office has")


async def _link(engine: Engine, person: Person, ids: list[str]) -> None:
    refs = [Ref(code=each.removeprefix("mem_")) for each in ids]
    await link(engine, person.caller, refs[0], Link(refs[1], Relation.CONTRADICTS))
    await link(engine, person.caller, refs[1], Link(refs[2], Relation.PART_OF))


def test_memories_are_filtered_by_source_tag_and_chat(person: Person) -> None:
    chat = person.ask("POST", "/chat/api/chats", json={"title": "Planning"})["id"]
    person.ask("POST", f"/chat/api/{chat}/memory", json={"content": "Said while planning"})

    async def tag(engine: Engine) -> None:
        ask = Save("Told by a model", tags=["travel"], origin=Origin.MODEL)
        await save(engine, person.caller, ask)

    person.site.run(tag)
    page = person.open("/#/memories")
    rows = page.locator(".rows .memory")
    expect(rows).to_have_count(2)

    chosen: Mapping[str, tuple[str, str]] = {
        "Source": ("model", "Told by a model"),
        "Tag": ("travel", "Told by a model"),
        "Chat": (chat, "Said while planning"),
    }
    for label, (value, text) in chosen.items():
        page.get_by_label(label, exact=True).select_option(value)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(text)
        page.reload()
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
        expect(rows).to_have_count(1)
        page.get_by_label(label, exact=True).select_option("")
        expect(rows).to_have_count(2)


def drop(page: Page, name: str, content: str) -> None:
    """Drop a file on the page, with the events of a real drop."""
    page.evaluate(
        """([name, content]) => {
          const data = new DataTransfer();
          data.items.add(new File([content], name));
          for (const type of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        [name, content],
    )


def test_a_dropped_file_shows_its_progress_and_can_be_stopped(person: Person) -> None:
    page = person.open("/#/documents")
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    slow_network = {
        "offline": False,
        "latency": 0,
        "downloadThroughput": -1,
        "uploadThroughput": 20_000,
    }
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", slow_network)

    drop(page, "long story.txt", "The tide comes in at six. " * 20_000)
    progress = page.get_by_label("Uploading long story.txt")
    expect(progress).to_be_visible()
    page.wait_for_function("() => document.querySelector('progress').value > 0")
    page.get_by_role("button", name="Stop").click()
    expect(progress).to_have_count(0)
    # The network stays slow: at full speed, the rest of the long file might arrive before the stop.
    drop(page, "short story.txt", "The tide comes in at six.")

    row = page.locator(".rows .memory")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("short story.txt")
    expect(row).to_contain_text("Searchable")
    assert len(person.ask("GET", f"{person.workspace}/documents")["items"]) == 1


FILES = {
    "tides.md": (b"# Tides\n\nThe tide comes in at six.", "Searchable"),
    "page.html": (b"<h1>Tides</h1><script>x</script><p>in at six</p>", "Searchable"),
    "story.pdf": (pdf("The tide comes in at six"), "Searchable"),
    "letter.docx": (docx(paragraph("The tide comes in at six")), "Searchable"),
    "tide.py": (b"def tide():\n    return 6\n", "Searchable"),
    "broken.pdf": (b"%PDF-1.4\nthis is no PDF", "The PDF is damaged."),
    "locked.pdf": (locked_pdf("Nobody reads this"), "The PDF is encrypted and needs a password."),
    "broken.docx": (docx(paragraph("x"))[:90], "damaged"),
    "sound.bin": (UNTIDY, "Stored, not searchable"),
    "nothing.txt": (b"", "Stored, not searchable"),
}


@pytest.mark.slow
def test_files_of_every_kind_show_their_result(person: Person, tmp_path: Path) -> None:
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "huge.txt").write_bytes(b"x" * (21 * 1024 * 1024))
    page = person.open("/#/documents")
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()

    page.locator("input[type=file]").set_input_files(
        [tmp_path / name for name in [*FILES, "huge.txt"]]
    )
    rows = page.locator(".rows .memory")
    for name, (_, state) in FILES.items():
        expect(rows.filter(has_text=name)).to_contain_text(state, timeout=60_000)
    refused = page.locator(".upload")
    expect(refused).to_contain_text("huge.txt")
    expect(refused.get_by_role("alert")).to_contain_text("At most 20 MB")
    refused.get_by_role("button", name="Dismiss").click()
    expect(refused).to_have_count(0)
    rows.filter(has_text="broken.pdf").get_by_role("button", name="broken.pdf").click()
    expect(page.get_by_role("dialog", name="Document")).to_contain_text("The PDF is damaged.")
    page.keyboard.press("Escape")
    page.goto("/#/search?q=When does the tide come in")

    expect(page.locator(".rows .memory").filter(has_text="story.pdf")).to_be_visible()


def test_single_letter_shortcuts_can_be_switched_off(person: Person) -> None:
    page = person.open("/#/chats")
    expect(page.get_by_role("heading", name="Chats", exact=True)).to_be_visible()

    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("Start a new chat")
    keys.get_by_label("Use single letters as shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("#/chats$"))
    page.get_by_role("button", name="Keyboard shortcuts").click()
    keys.get_by_label("Use single letters as shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("n")

    expect(page.get_by_text("What should be remembered?")).to_be_visible()


def test_a_chat_search_continues_past_pages_without_matches(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = threads.chats_holding.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "most_messages", 0)  # one chat at a time
    for title in ("The old harbour", "Bread", "Planning", "Tides"):
        person.ask("POST", "/chat/api/chats", json={"title": title})
    page = person.open("/#/chats")
    rows = page.locator(".rows .memory")
    expect(rows).to_have_count(4)

    page.get_by_label("Search chats").fill("harbour")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("The old harbour")
    page.get_by_label("Search chats").fill("submarine")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
