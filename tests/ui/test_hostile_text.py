"""Text from users, models and files is shown and never executed (S90 to S92)."""

import httpx2
from playwright.sync_api import Page, expect

from tests.support.browser_site import Person
from tests.support.upstream import Answer, Endpoint

HOSTILE = [
    "<script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 1'>",
    "<svg onload='window.hurt = 1'>",
    "[here](javascript:window.hurt=1)",
    "<iframe srcdoc='<script>parent.hurt = 1</script>'></iframe>",
    "![pixel](https://evil.example/pixel.png)",
    "</textarea><script>window.hurt = 1</script>",
    "<style>@import 'https://evil.example/x.css';</style>",
    '"><img src=https://evil.example/y onerror=window.hurt=1>',
    "{{constructor.constructor('window.hurt=1')()}}",
]


def is_unhurt(page: Page) -> bool:
    return page.evaluate("window.hurt === undefined")


def test_S91_S92_nothing_runs_from_memories_names_or_answers(
    person: Person, model: Endpoint
) -> None:
    made = [person.remember(text, f"<b>{number}</b>") for number, text in enumerate(HOSTILE)]
    person.ask("POST", "/chat/api/chats", json={"title": HOSTILE[1]})
    with person.http() as http:
        _upload(http, f"{person.workspace}/documents", "<img src=x onerror=window.hurt=1>.txt")
    model.default = Answer("\n\n".join(HOSTILE))
    page = person.open()

    page.get_by_label("Message", exact=True).fill(HOSTILE[1])
    page.keyboard.press("Enter")
    expect(page.locator(".from-assistant .prose")).to_contain_text("window.hurt = 1")
    page.get_by_role("button", name="Memories").click()
    expect(page.locator("#memories-panel .memory").first).to_be_visible()
    assert is_unhurt(page)
    hrefs = page.locator(".prose a").evaluate_all("all => all.map(each => each.href)")
    assert hrefs == ["https://evil.example/pixel.png"]
    assert page.locator("main img, main iframe, main script").count() == 0
    for place in (
        "memories",
        "memories?view=graph",
        f"memory/{made[0]['id']}",
        "documents",
        "chats",
    ):
        page.goto(f"/#/{place}")
        page.wait_for_load_state("networkidle")
        assert is_unhurt(page), place

    # The fixture checks that the page requested nothing from other hosts and violated no policy.


def test_S90_the_browser_rejects_markup_and_inline_code(person: Person) -> None:
    page = person.open("/#/chats")
    attempts = {
        "markup": "document.body.innerHTML = '<b>x</b>'",
        "handler": "document.body.setAttribute('onclick', 'window.hurt = 1')",
        "script": "document.createElement('script').src = 'https://evil.example/x.js'",
        "policy": "trustedTypes.createPolicy('another', {})",
    }

    refused = {
        name: page.evaluate(f"() => {{ try {{ {code} }} catch (error) {{ return error.name }} }}")
        for name, code in attempts.items()
    }

    assert refused == dict.fromkeys(attempts, "TypeError")
    assert is_unhurt(page)
    person.page_errors.clear()


def test_S90_the_api_documentation_loads_nothing_from_other_hosts(person: Person) -> None:
    page = person.open("/docs")

    expect(page.get_by_role("heading").first).to_be_visible()
    page.wait_for_load_state("networkidle")

    # The fixture checks that the page requested nothing from other hosts and violated no policy.


def _upload(http: httpx2.Client, path: str, name: str) -> None:
    assert http.post(path, files={"file": (name, b"plain text")}).is_success
