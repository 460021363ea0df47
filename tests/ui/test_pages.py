"""Every page, for a new user and for a user with data."""

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.support.browser_site import Person
from tests.support.upstream import Answer, Endpoint

EMPTY = {
    "chats": "No chats yet",
    "memories": "No memories yet",
    "memories?view=graph": "No links yet",
    "memories?view=review": "Nothing to review",
    "documents": "No documents yet",
    "timeline": "No memories yet",
    "search": "Search in your own words",
    "jobs": "No jobs",
    "usage": "No usage yet",
}


def test_an_empty_page_explains_what_belongs_there(person: Person) -> None:
    page = person.open()
    expect(page.get_by_text("What should be remembered?")).to_be_visible()

    for place, words in EMPTY.items():
        page.goto(f"/#/{place}")
        expect(page.get_by_role("heading", name=words)).to_be_visible()


INVALID = {
    "memory/mem_nothing": "Memory not found",
    "documents/doc_nothing": "Document not found",
    "chat/chat_nothing": "Chat not found",
    "chat/%E0%A4%A": "Chat not found",
    "memories?view=sideways": "No memories yet",
    "jobs?state=lost": "No jobs",
    "usage?days=many": "No usage yet",
    "timeline?as_of=once": "No memories yet",
    "search?types=spoons": "Search in your own words",
}


def test_an_invalid_address_shows_not_found_or_the_default_view(person: Person) -> None:
    page = person.open()
    expect(page.get_by_text("What should be remembered?")).to_be_visible()

    for place, words in INVALID.items():
        page.goto(f"/#/{place}")
        expect(page.get_by_role("heading", name=words)).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        page.keyboard.press("Escape")

    person.ignore_errors("404")


def test_closing_a_memory_does_not_undo_a_later_navigation(person: Person) -> None:
    """The dialog's close event arrives after the address has changed, before the page handles it."""
    page = person.open("#/memory/mem_nothing")
    expect(page.get_by_role("heading", name="Memory not found")).to_be_visible()

    page.evaluate(
        "location.hash = '#/jobs'; document.querySelector('dialog').dispatchEvent(new Event('close'))"
    )

    expect(page.get_by_role("heading", name="No jobs")).to_be_visible()
    person.ignore_errors("404")


def test_the_welcome_dialog_appears_only_on_the_first_visit(person: Person) -> None:
    context = person.browser.new_context(base_url=person.site.url)
    person.contexts.append(context)
    context.add_cookies([{"name": "session", "value": person.token, "url": person.site.url}])
    page = context.new_page()
    person.collect_errors(page)
    page.goto("/")
    tour = page.get_by_role("dialog", name="Welcome to Recollect")
    expect(tour).to_be_visible()

    page.get_by_role("button", name="Start").click()
    expect(tour).to_have_count(0)
    page.reload()

    expect(page.get_by_text("What should be remembered?")).to_be_visible()
    expect(tour).to_have_count(0)


def test_chats_are_listed_searched_renamed_and_deleted(person: Person) -> None:
    for title in ("Opening in Lisbon", "Weekly planning"):
        person.ask("POST", "/chat/api/chats", json={"title": title})
    page = person.open("/#/chats")
    rows = page.locator(".rows .memory")
    expect(rows).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("lisbon")
    expect(rows).to_have_count(1)
    rows.get_by_role("link", name="Opening in Lisbon").click()
    title = page.get_by_label("Chat title")
    expect(title).to_have_value("Opening in Lisbon")
    title.fill("   ")
    title.press("Enter")
    expect(title).to_have_value("Opening in Lisbon")
    title.fill("Opening in Porto")
    title.press("Enter")
    expect(page.get_by_role("list", name="Recent chats")).to_contain_text("Opening in Porto")
    page.goto("/#/chats")
    rows.filter(has_text="Weekly planning").hover()
    rows.filter(has_text="Weekly planning").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Opening in Porto")


def test_the_graph_is_zoomed_filtered_and_opened_by_keyboard(person: Person) -> None:
    for number in range(6):
        person.remember(f"the Lisbon office has {number} floors")
    page = person.open("/#/memories?view=graph")
    nodes = page.locator(".graph .node")
    expect(nodes).to_have_count(6)

    page.get_by_label("Find in the graph").fill("3 floors")
    expect(page.locator(".graph .node:visible")).to_have_count(1)
    page.get_by_label("Find in the graph").fill("")
    canvas = page.locator("svg.canvas")
    before = canvas.get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    assert canvas.get_attribute("viewBox") != before
    page.get_by_role("button", name="Show all").click()
    assert canvas.get_attribute("viewBox") == before
    nodes.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")

    expect(page.get_by_role("dialog", name="Memory")).to_contain_text("the Lisbon office has")


def test_S76_a_memory_shows_its_source_and_earlier_texts(person: Person) -> None:
    chat = person.ask("POST", "/chat/api/chats", json={"title": "Planning"})["id"]
    made = person.ask("POST", f"/chat/api/{chat}/memory", json={"content": "It opens in May"})
    body = {"content": "It opens in June"}
    person.ask("PATCH", f"{person.workspace}/memories/{made['id']}", json=body)

    page = person.open(f"/#/memory/{made['id']}")

    dialog = page.get_by_role("dialog", name="Memory")
    expect(dialog).to_contain_text("It opens in June")
    events = dialog.locator(".event")
    expect(events.filter(has_text="Changed")).to_contain_text("It opens in June")
    expect(events.filter(has_text="Saved")).to_contain_text("It opens in May")
    dialog.get_by_role("button", name="Restore this text").click()
    expect(dialog.locator(".detail-text")).to_have_text("It opens in May")
    expect(events).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"#/memories$"))


def test_documents_are_uploaded_read_shown_and_deleted(person: Person, tmp_path: Path) -> None:
    lease = tmp_path / "lease <b>of Rua Augusta.md"
    lease.write_text("# Lease\n\nThe lease begins on the first of September.")
    page = person.open("/#/documents")
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()

    page.locator("input[type=file]").set_input_files(lease)
    row = page.locator(".rows .memory")
    expect(row).to_contain_text("lease <b>of Rua Augusta.md")
    expect(row).to_contain_text("Searchable")
    row.get_by_role("button", name="lease").click()
    expect(page.get_by_label("Text of the document")).to_contain_text("first of September")
    page.keyboard.press("Escape")
    row.hover()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(row).to_have_count(0)


def test_one_search_finds_memories_and_document_passages(person: Person) -> None:
    person.remember("The lease begins in September")
    with person.http() as http:
        file = {"file": ("lease.txt", b"The lease begins in September and ends in May.")}
        assert http.post(f"{person.workspace}/documents", files=file).is_success
    page = person.open("/#/search")
    kinds = page.locator(".rows .chip")

    page.get_by_label("Search everything").fill("lease September")
    expect(kinds.filter(has_text="memory")).to_have_count(1)
    page.wait_for_function(
        "async () => { const field = document.querySelector('[data-search]');"
        " field.dispatchEvent(new Event('input')); await new Promise(r => setTimeout(r, 400));"
        " return [...document.querySelectorAll('.rows .chip')].some(e => e.textContent === 'document') }",
        timeout=20_000,
    )
    page.get_by_role("button", name="Memories").click()

    expect(kinds).to_have_count(1)


def test_the_timeline_shows_the_memories_of_a_day(person: Person) -> None:
    person.remember("Learnt today")
    page = person.open("/#/timeline")
    rows = page.locator(".rows .memory")
    expect(rows).to_contain_text("Learnt today")

    slider = page.get_by_label("As of day")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()
    expect(page).to_have_url(re.compile("as_of="))
    page.get_by_role("button", name="Now").click()

    expect(rows).to_contain_text("Learnt today")


def test_usage_is_plotted_and_described_in_text(person: Person, model: Endpoint) -> None:
    model.default = Answer("Counted.")
    page = person.open()
    page.get_by_label("Message", exact=True).fill("Count me")
    page.keyboard.press("Enter")
    expect(page.locator(".from-assistant")).to_contain_text("Counted.")

    page.goto("/#/usage")

    expect(page.get_by_role("img", name=re.compile("Tokens per day"))).to_be_visible()
    expect(page.locator("table.data")).to_contain_text("m1")


def test_settings_create_workspaces_and_keys(person: Person) -> None:
    page = person.open("/#/settings")
    expect(page.get_by_text("Embedder in use")).to_be_visible()

    page.get_by_role("button", name="New workspace").click()
    page.get_by_label("Name", exact=True).fill("   ")
    page.get_by_role("button", name="Create").click()
    # The browser rejects it; nothing was sent.
    expect(page.get_by_role("dialog", name="New workspace")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("Research")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Workspace", exact=True)).to_contain_text("Research")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("What is it for?").fill("laptop")
    for right in ("read", "write"):
        page.get_by_role("checkbox", name=right).uncheck()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose at least one right")
    page.get_by_role("checkbox", name="read").check()
    page.get_by_role("button", name="Create").click()
    secret = page.locator(".secret")
    expect(secret).to_contain_text("rk_")
    key = secret.inner_text()
    page.get_by_role("button", name="Done").click()
    expect(secret).to_have_count(0)
    row = page.locator("li").filter(has_text="laptop")
    expect(row).to_be_visible()
    assert key not in page.content()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()

    expect(row).to_contain_text("Revoked")


def test_another_workspace_shows_none_of_this_ones_memories(person: Person) -> None:
    person.remember("Only in the first workspace")
    person.ask("POST", "/chat/api/workspaces", json={"name": "Elsewhere"})
    page = person.open("/#/memories")
    expect(page.get_by_text("Only in the first workspace")).to_be_visible()

    page.get_by_label("Workspace", exact=True).select_option(label="Elsewhere")

    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()
    expect(page.get_by_text("Only in the first workspace")).to_have_count(0)


def test_every_page_fits_a_narrow_dark_screen(person: Person) -> None:
    person.remember("something long to read " * 20, "a category with a long name")
    page = person.open(
        viewport={"width": 360, "height": 740}, color_scheme="dark", has_touch=True, is_mobile=True
    )
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"

    for place in ("", *EMPTY, "settings"):
        page.goto(f"/#/{place}")
        expect(page.locator("main h1")).to_have_count(1)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") == 360, place
    page.get_by_role("button", name="Menu").click()
    page.locator("#rail").get_by_role("link", name="New chat").click()
    page.locator("#memories-toggle").click()
    expect(page.locator("#memories-panel .memory")).to_have_count(1)
    page.get_by_role("button", name="Close memories").click()

    expect(page.get_by_label("Message", exact=True)).to_be_visible()


def test_the_theme_follows_the_system_until_changed(person: Person) -> None:
    page = person.open("/#/chats")
    paper = "getComputedStyle(document.body).backgroundColor"
    expect(page.get_by_role("heading", name="Chats", exact=True)).to_be_visible()
    assert page.evaluate(paper) == "rgb(255, 255, 255)"

    page.get_by_role("button", name="Dark theme").click()
    page.reload()

    expect(page.get_by_role("button", name="Light theme")).to_be_visible()
    assert page.evaluate(paper) == "rgb(21, 24, 28)"
