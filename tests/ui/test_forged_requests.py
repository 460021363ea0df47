"""A page on another origin cannot act with the cookie of a signed-in user (S30)."""

import httpx2
import pytest
from playwright.sync_api import Page, Route

from tests.support.browser_site import Person

# A port is no part of a site, so the browser sends the `SameSite` cookie from the first of these.
ELSEWHERE = ["http://127.0.0.1:9", "http://evil.test"]

FORGED = """
    async ({site, workspace}) => {
        const body = JSON.stringify({content: "forged"});
        const image = new Image();
        image.src = `${site}/logout`;
        const requests = [
            ["no-cors", "text/plain"], ["cors", "text/plain"], ["cors", "application/json"],
        ].map(([mode, type]) => fetch(`${site}${workspace}/memories`, {
            method: "POST", mode, credentials: "include", headers: {"content-type": type}, body,
        }));
        requests.push(fetch(`${site}/logout`, {
            method: "POST", mode: "no-cors", credentials: "include",
        }));
        requests.push(fetch(`${site}${workspace}/memories`, {credentials: "include"}));
        return (await Promise.allSettled(requests)).map((each) => each.value?.type ?? "refused");
    }
"""
FORM = """
    ({site, workspace}) => {
        const form = document.createElement("form");
        form.method = "POST";
        form.enctype = "text/plain";
        form.action = `${site}${workspace}/memories`;
        const field = document.createElement("input");
        field.name = '{"content": "forged", "ignored": "';
        field.value = '"}';
        form.append(field);
        document.body.append(form);
        form.submit();
    }
"""


def open_elsewhere(person: Person, origin: str) -> Page:
    """Open an empty page of another origin in a browser where the user is signed in."""
    context = person.browse()

    def answer(route: Route) -> None:
        route.fulfill(body="<!doctype html><body></body>", content_type="text/html")

    context.route(f"{origin}/**", answer)
    page = context.new_page()
    page.goto(f"{origin}/")
    return page


def memories(person: Person) -> list[str]:
    return [each["content"] for each in person.ask("GET", f"{person.workspace}/memories")["items"]]


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_S30_a_page_of_another_origin_changes_and_reads_nothing(
    person: Person, origin: str
) -> None:
    person.remember("Ada drinks tea")
    page = open_elsewhere(person, origin)
    target = {"site": person.site.url, "workspace": person.workspace}

    shown = page.evaluate(FORGED, target)
    with page.expect_navigation() as submitted:
        page.evaluate(FORM, target)

    assert set(shown) <= {"opaque", "refused"}
    response = submitted.value
    assert response is not None
    assert response.status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}
    assert memories(person) == ["Ada drinks tea"]
    assert person.ask("GET", "/chat/api/me")["rights"]
    person.page_errors.clear()
