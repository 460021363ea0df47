"""The page for users of screen readers and keyboards, and for users with low vision."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from playwright.sync_api import Page, expect

from tests.support.browser_site import Person
from tests.support.upstream import Answer, Endpoint

PAGES = (
    "",
    "chats",
    "memories",
    "memories?view=graph",
    "memories?view=review",
    "documents",
    "timeline",
    "search?q=office",
    "jobs",
    "usage",
    "settings",
)
# Roles of controls and graphics, which need an accessible name.
NEEDS_NAME = {
    "button", "link", "textbox", "searchbox", "combobox", "checkbox", "slider", "menuitem", "tab",
    "image", "img", "meter", "progressbar", "dialog", "log", "complementary", "navigation",
}  # fmt: skip

# Every visible text whose contrast to its background is less than 4.5 to 1.
LOW_CONTRAST = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const known = new Map();
  const rgba = (css) => {
    if (!known.has(css)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = css;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(css, [r, g, b, a / 255]);
    }
    return known.get(css);
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((part, at) => part * a + under[at] * (1 - a));
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const layer = rgba(getComputedStyle(each).backgroundColor);
      if (layer[3] > 0) layers.unshift(layer);
      if (layer[3] === 1) break;
    }
    return layers.reduce((under, layer) => over(layer, under), rgba(getComputedStyle(document.body).backgroundColor));
  };
  const light = (colour) => colour.slice(0, 3)
    .map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const seen = (element) => {
    let share = 1;
    for (let each = element; each; each = each.parentElement) share *= Number(getComputedStyle(each).opacity);
    return share;
  };
  const top = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body;
  const texts = document.createTreeWalker(top, NodeFilter.SHOW_TEXT);
  const weak = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    // Skip actions that appear on hover, and disabled controls.
    if (!text || !element.checkVisibility() || element.closest(':disabled, .actions, .visually-hidden, script, option')) continue;
    // Skip text that is not visible yet, such as the delayed loading message.
    if (seen(element) === 0) continue;
    const style = getComputedStyle(element);
    const under = behind(element);
    const [r, g, b, a] = rgba(element instanceof SVGElement ? style.fill : style.color);
    const shown = over([r, g, b, a * seen(element)], under);
    const [one, other] = [light(shown), light(under)].sort((x, y) => y - x);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} “${text.slice(0, 30)}” ${style.color} on ${under.map(Math.round)}`);
  }
  return weak;
}"""

LEVELS = """() => [...document.querySelectorAll('h1, h2, h3, h4')]
  .filter((each) => each.checkVisibility()).map((each) => Number(each.tagName[1]))"""

# Whether the focus is visible.
FOCUS = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const box = here.getBoundingClientRect();
  const framed = here.closest('.composer');
  return {
    name: here.getAttribute('aria-label') || here.innerText?.trim().slice(0, 40) || here.tagName,
    tag: here.tagName,
    isMarked: style.outlineStyle !== 'none' || (framed && getComputedStyle(framed).boxShadow !== 'none') || here.matches('.node'),
    isVisible: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
  };
}"""


def tree(page: Page) -> Sequence[Mapping[str, Any]]:
    """Return the accessibility tree, as a screen reader gets it."""
    session = page.context.new_cdp_session(page)
    nodes = cast("list[dict[str, Any]]", session.send("Accessibility.getFullAXTree")["nodes"])
    session.detach()
    return [
        {
            "role": node["role"]["value"],
            "name": node.get("name", {}).get("value", "").strip(),
            **{each["name"]: each["value"].get("value") for each in node.get("properties", [])},
        }
        for node in nodes
        if not node["ignored"]
    ]


def find_problems(page: Page) -> list[str]:
    """Return problems with names, headings and landmarks, and with contrast in both themes."""
    nodes = tree(page)
    roles = [node["role"] for node in nodes]
    wrong = [
        f"no name: {node}" for node in nodes if node["role"] in NEEDS_NAME and not node["name"]
    ]
    levels: list[int] = page.evaluate(LEVELS)
    # While a dialog is open, the rest of the page is hidden from screen readers.
    if "dialog" not in roles:
        steps = zip([0, *levels], levels, strict=False)
        if levels.count(1) != 1 or any(level > before + 1 for before, level in steps):
            wrong.append(f"headings: {levels}")
        if roles.count("main") != 1:
            wrong.append("not one main")
    for theme in ("light", "dark"):
        # Without motion, so that no colour is in transition.
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        wrong += [f"{theme}: {each}" for each in page.evaluate(LOW_CONTRAST)]
    page.emulate_media(color_scheme="light")
    return wrong


def test_every_page_has_names_headings_landmarks_and_contrast(
    person: Person, model: Endpoint
) -> None:
    model.default = Answer("The `office` opens in [September](https://example.com).")
    made = person.remember("The Lisbon office opens on 12 September", "fact")
    pinned = person.remember("Deploys to production need two approvals", "instruction")
    person.ask("POST", f"{person.workspace}/memories/{pinned['id']}/pin", json={"pinned": True})
    with person.http() as http:
        file = {"file": ("office.bin", b"\x00\x01" * 9)}
        assert http.post(f"{person.workspace}/documents", files=file).is_success
    page = person.open()
    page.get_by_label("Message", exact=True).fill("The Lisbon office opens on 12 September")
    page.keyboard.press("Enter")
    expect(page.locator(".from-assistant code")).to_be_visible()
    page.locator("details.injected summary").click()
    page.locator("#memories-toggle").click()
    expect(page.locator("#memories-panel .memory")).to_have_count(2)
    log = page.get_by_role("log", name="Messages")
    expect(log).to_have_attribute("aria-live", "polite")
    found = {"a chat": find_problems(page)}
    page.locator("#memories-toggle").click()

    for place in PAGES:
        page.goto(f"/#/{place}")
        expect(page.locator("main h1")).to_have_count(1)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main .waiting")).to_have_count(0)
        assert any(node["role"] == "navigation" for node in tree(page))
        found[place or "a new chat"] = find_problems(page)
    page.goto(f"/#/memory/{made['id']}")
    expect(page.get_by_role("dialog", name="Memory").locator(".event")).to_be_visible()
    found["a memory"] = find_problems(page)
    page.context.clear_cookies()
    page.goto("/login")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    found["signing in"] = find_problems(page)

    assert {place: wrong for place, wrong in found.items() if wrong} == {}


def test_the_focus_is_always_visible_and_returns_after_a_dialog(
    person: Person,
) -> None:
    person.remember("The Lisbon office opens on 12 September", "fact")
    page = person.open("/#/memories")
    row = page.locator(".rows .memory")
    expect(row).to_have_count(1)

    visited: list[str] = []
    page.locator("#skip").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUS)
        if here["tag"] == "BODY":
            break
        assert here["isMarked"], here
        assert here["isVisible"], here
        visited.append(here["name"])
    wanted = ["Workspace", "New chat", "Chats", "Settings", "Sign out", "List", "Add", "Category"]
    assert [name for name in visited if name in wanted] == wanted
    for opener, dialog in (
        ("Add", "Add a memory"),
        ("Keyboard shortcuts", "Keyboard shortcuts"),
        ("History", "Memory"),
    ):
        button = page.get_by_role("button", name=opener, exact=True)
        button.focus()
        page.keyboard.press("Enter")
        box = page.get_by_role("dialog", name=dialog)
        expect(box).to_be_visible()
        assert box.evaluate("box => box.contains(document.activeElement)"), dialog
        page.keyboard.press("Escape")
        expect(box).to_have_count(0)
        expect(button).to_be_focused()

    page.set_viewport_size({"width": 360, "height": 740})
    menu = page.get_by_role("button", name="Menu")
    menu.click()
    expect(page.locator("#rail :focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    page.goto("/#/")
    toggle = page.locator("#memories-toggle")
    expect(toggle).to_have_accessible_name("Memories 1")
    toggle.click()
    expect(page.get_by_label("Search memories")).to_be_focused()
    page.keyboard.press("Escape")
    expect(toggle).to_be_focused()
