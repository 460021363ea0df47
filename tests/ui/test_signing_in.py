"""Signing in, signing out, and returning to the same page."""

from playwright.sync_api import expect

from tests.support.browser_site import Person
from tests.support.dashboard import PASSWORD


def test_after_signing_in_the_requested_page_opens(
    person: Person,
) -> None:
    login = person.give_password()
    context = person.browse()
    context.clear_cookies()
    page = context.new_page()
    page.goto("/#/settings")
    expect(page).to_have_url(f"{person.site.url}/login#/settings")

    page.get_by_label("Username").fill(login)
    page.get_by_label("Password").fill("not this one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Wrong username or password")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{person.site.url}/#/settings")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    person.ignore_errors("401")


def test_a_draft_survives_an_expired_session_and_a_new_sign_in(
    person: Person,
) -> None:
    login = person.give_password()
    page = person.open("/#/")
    page.get_by_label("Message", exact=True).fill("a thought I would hate to lose")

    page.context.clear_cookies()
    page.get_by_role("link", name="Memories").click()
    expect(page).to_have_url(f"{person.site.url}/login#/memories")
    page.get_by_label("Username").fill(login)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Memories", exact=True)).to_be_visible()
    page.locator("#rail").get_by_role("link", name="New chat").click()

    expect(page.get_by_label("Message", exact=True)).to_have_value("a thought I would hate to lose")
    person.ignore_errors("401")


def test_signing_out_ends_the_session_in_every_tab(person: Person) -> None:
    context = person.browse()
    one, other = context.new_page(), context.new_page()
    one.goto("/#/chats")
    other.goto("/#/chats")
    expect(one.get_by_role("heading", name="Chats", exact=True)).to_be_visible()

    one.get_by_role("button", name="Sign out").click()
    expect(one.get_by_role("heading", name="Sign in")).to_be_visible()
    other.get_by_role("link", name="Memories").click()

    expect(other).to_have_url(f"{person.site.url}/login#/memories")
    person.ignore_errors("401")


def test_the_page_reports_an_unreachable_server_and_recovers(person: Person) -> None:
    page = person.open("/#/chats")
    expect(page.get_by_role("heading", name="Chats", exact=True)).to_be_visible()

    person.site.stop()
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_text("The server cannot be reached. Retrying…")).to_be_visible()
    person.site.start()

    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    expect(page.get_by_text("The server cannot be reached", exact=False)).to_have_count(0)
    person.ignore_errors("ERR_CONNECTION")
    person.ignore_errors("Failed to load resource")
