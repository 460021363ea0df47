"""The panel with the workspace's memories next to the chat (R101 to R107)."""

import pytest
from playwright.sync_api import Locator, Page, expect

from recollect.engine import Engine
from tests.support.browser_site import Person


def toggle(page: Page) -> None:
    page.locator("#memories-toggle").click()


def entry(page: Page, text: str):  # noqa: ANN201 - a locator
    return page.locator("#memories-panel .memory").filter(has_text=text)


def badge(page: Page):  # noqa: ANN201 - a locator
    return page.locator("#memories-count")


def test_R101_the_toggle_opens_and_closes_the_panel(person: Person) -> None:
    page = person.open()
    panel = page.get_by_role("complementary", name="Memories")
    expect(panel).to_be_hidden()

    toggle(page)
    expect(panel).to_be_visible()
    toggle(page)

    expect(panel).to_be_hidden()
    expect(page.locator("#memories-toggle")).to_have_attribute("aria-expanded", "false")


def test_R102_scrolling_reaches_all_active_memories_and_no_others(person: Person) -> None:
    chats = [person.ask("POST", "/chat/api/chats", json={})["id"] for _ in range(2)]
    for number in range(48):
        body = {"content": f"memory number {number:03}"}
        person.ask("POST", f"/chat/api/{chats[number % 2]}/memory", json=body)
    gone = person.remember("this one was forgotten")
    person.ask("DELETE", f"{person.workspace}/memories/{gone['id']}")
    page = person.open()

    toggle(page)
    seen: set[str] = set()
    rows = page.locator("#memories-panel .memory-text")
    expect(rows.first).to_be_visible()
    scroller = page.locator(".panel-scroll")
    for _ in range(200):
        seen.update(rows.all_inner_texts())
        if len(seen) == 48:
            break
        scroller.evaluate("element => element.scrollBy(0, element.clientHeight / 2)")
        page.wait_for_timeout(15)

    assert seen == {f"memory number {number:03}" for number in range(48)}


def test_R103_an_entry_shows_content_category_source_type_and_date(person: Person) -> None:
    person.remember("Ada takes her tea without milk", "preference")
    person.remember("נועה שותה תה בלי חלב")
    page = person.open()

    toggle(page)

    row = entry(page, "Ada takes her tea without milk")
    expect(row).to_contain_text("preference")
    expect(row).to_contain_text("user")
    expect(row.locator("time")).to_have_text("just now")
    gaps = [_gap_before(each) for each in (row, entry(page, "נועה"))]
    assert (gaps[0] == 0, gaps[1] > 0) == (True, True)  # Hebrew starts at the right


def _gap_before(row: Locator) -> float:
    """Return the distance between the left edge of the element and its text."""
    return row.locator(".memory-text").evaluate(
        """text => {
            const range = document.createRange();
            range.selectNodeContents(text);
            return range.getBoundingClientRect().left - text.getBoundingClientRect().left;
        }"""
    )


def test_R104_an_entry_is_edited_in_place(person: Person) -> None:
    made = person.remember("The deadline is 15 March")
    page = person.open()
    toggle(page)

    row = entry(page, "The deadline is 15 March")
    row.hover()
    row.get_by_role("button", name="Edit").click()
    field = page.get_by_label("Text of the memory")
    expect(field).to_be_focused()
    field.fill("The deadline is 1 April")
    with page.expect_request(lambda asked: asked.method == "PATCH"):
        page.get_by_role("button", name="Save").click()

    expect(entry(page, "The deadline is 1 April")).to_be_visible()
    kept = person.ask("GET", f"{person.workspace}/memories/{made['id']}")
    assert kept["content"] == "The deadline is 1 April"


def test_R104_a_rejected_edit_keeps_the_typed_text(person: Person) -> None:
    made = person.remember("A fact that another user forgets")
    page = person.open()
    toggle(page)
    entry(page, "A fact").hover()
    entry(page, "A fact").get_by_role("button", name="Edit").click()
    page.get_by_label("Text of the memory").fill("A fact, corrected too late")

    person.ask("DELETE", f"{person.workspace}/memories/{made['id']}")
    page.get_by_role("button", name="Save").click()

    expect(page.locator("#memories-panel").get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Text of the memory")).to_have_value("A fact, corrected too late")
    page.keyboard.press("Escape")
    person.ignore_errors("404")


def test_R105_an_entry_is_deleted_and_restored(person: Person) -> None:
    person.remember("A memory to forget")
    person.remember("A memory to keep")
    page = person.open()
    toggle(page)

    row = entry(page, "A memory to forget")
    row.hover()
    with page.expect_request(lambda asked: asked.method == "DELETE"):
        row.get_by_role("button", name="Forget").click()
    expect(row).to_have_count(0)
    expect(badge(page)).to_have_text("1")
    assert person.ask("GET", f"{person.workspace}/memories/count") == {"count": 1}
    page.get_by_role("button", name="Undo").click()

    expect(row).to_be_visible()
    expect(badge(page)).to_have_text("2")


@pytest.mark.parametrize("number", [0, 1, 27])
def test_R106_the_badge_shows_the_number_of_memories(person: Person, number: int) -> None:
    for each in range(number):
        person.remember(f"something to know, number {each}")

    page = person.open()

    expect(badge(page)).to_have_text(str(number))


def test_R107_the_badge_is_updated_on_opening_and_after_each_change(person: Person) -> None:
    page = person.open()
    expect(badge(page)).to_have_text("0")

    person.remember("saved outside the page")
    toggle(page)
    expect(badge(page)).to_have_text("1")
    page.goto("/#/memories")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("What should be remembered?").fill("saved on the page")
    page.get_by_role("button", name="Remember").click()
    expect(page.get_by_text("2 memories")).to_be_visible()
    page.goto("/#/")

    expect(badge(page)).to_have_text("2")


def test_memories_are_searched_while_typing_and_filtered(person: Person) -> None:
    person.remember("The Lisbon office opens on 12 September", "fact")
    person.remember("Ada takes her tea without milk", "preference")
    page = person.open()
    toggle(page)
    expect(page.locator("#memories-panel .memory")).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("tea")
    expect(page.locator("#memories-panel .memory")).to_have_count(1)
    expect(entry(page, "Ada takes her tea")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#memories-panel .memory")).to_have_count(2)
    page.get_by_label("Category").select_option("fact")

    expect(page.locator("#memories-panel .memory")).to_have_count(1)
    expect(entry(page, "The Lisbon office")).to_be_visible()


def test_the_panel_works_with_the_keyboard_alone(person: Person) -> None:
    for text in ("the oldest", "the middle one", "the newest"):
        person.remember(text)
    page = person.open()
    page.keyboard.press("Escape")
    page.locator("#memories-toggle").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#memories-panel .memory")).to_have_count(3)
    page.keyboard.press("/")
    expect(page.get_by_label("Search memories")).to_be_focused()

    page.keyboard.press("ArrowDown")
    expect(entry(page, "the newest")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")
    page.keyboard.press("Control+A")
    page.keyboard.type("the one in between")
    page.keyboard.press("Control+Enter")
    expect(entry(page, "the one in between")).to_be_focused()
    page.keyboard.press("p")
    expect(entry(page, "the one in between")).to_have_class("memory is-pinned")
    expect(entry(page, "the one in between")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Memory")).to_contain_text("Changed")
    page.keyboard.press("Escape")
    expect(entry(page, "the one in between")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Delete")

    expect(entry(page, "the newest")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#memories-panel")).to_be_hidden()


_COPIES = """
    INSERT INTO memory (workspace_id, id, code, org_id, user_id, content, importance,
        importance_base, lifecycle, scope, origin, wants_vector, content_digest, created_at,
        updated_at)
    SELECT workspace_id, gen_random_uuid(), left(md5(n::text) || md5(n::text), 24), org_id, user_id,
        'number ' || n || repeat(' and some more words', n %% 5), importance, importance_base,
        lifecycle, scope, origin, false, sha256(n::text::bytea), created_at - n * interval '1 s',
        updated_at
    FROM memory, generate_series(1, 9999) n
    WHERE workspace_id = %s
"""


def test_ten_thousand_memories_scroll_with_few_rows_in_the_document(person: Person) -> None:
    person.remember("number 0")

    async def copy(engine: Engine) -> None:
        async with engine.writing(person.caller) as db:
            await db.execute(_COPIES, (person.caller.workspace_id,))

    person.site.run(copy)
    page = person.open()
    expect(badge(page)).to_have_text("10,000")

    toggle(page)
    rows = page.locator("#memories-panel .memory")
    expect(rows.first).to_contain_text("number 0")
    rendered = page.evaluate(
        """async () => {
          const scroller = document.querySelector('.panel-scroll');
          const frame = () => new Promise(requestAnimationFrame);
          let highest = 0;
          for (let step = 0; step < 2000; step++) {
            scroller.scrollTop += 600;
            await frame();
            highest = Math.max(highest, scroller.querySelectorAll('.memory').length);
            if (scroller.textContent.includes('number 700')) break;
          }
          return highest;
        }"""
    )
    assert rendered < 250
    page.locator(".panel-scroll").evaluate("element => { element.scrollTop = 0 }")

    expect(rows.first).to_contain_text("number 0")
