"""The chat page: messages, saving them as memories, and memories used for an answer (R098-R100)."""

import re

from playwright.sync_api import Page, expect

from recollect.chat.dashboard_chats import create_dashboard_chat
from recollect.engine import Engine
from tests.support.browser_site import Person
from tests.support.conversations import add_messages as tell
from tests.support.dashboard import PASSWORD
from tests.support.upstream import Answer, Endpoint, RawAnswer


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page):  # noqa: ANN201 - a locator
    return page.locator(".message.from-assistant")


def test_an_answer_streams_and_is_there_after_a_reload(person: Person, model: Endpoint) -> None:
    model.default = Answer("The **office** opens in *September*, I am memory.", pause=0.02)
    page = person.open()

    say(page, "When do we open?")
    expect(page.locator(".message.from-user")).to_contain_text("When do we open?")
    expect(answers(page).locator("strong")).to_have_text("office")
    expect(page).to_have_url(re.compile(r"#/chat/chat_"))
    expect(page.get_by_label("Chat title")).to_have_value("When do we open?")
    page.reload()

    expect(answers(page).locator("strong")).to_have_text("office")
    expect(page.get_by_role("list", name="Recent chats")).to_contain_text("When do we open?")


def test_R098_every_message_has_remember_this(person: Person) -> None:
    page = person.open()

    say(page, "Hello there")

    expect(answers(page)).to_contain_text("Hello.")
    expect(page.locator(".message")).to_have_count(2)
    for number in range(2):
        message = page.locator(".message").nth(number)
        expect(message.get_by_role("button", name="Remember this")).to_be_visible()


def test_R099_R100_remember_this_saves_the_message_and_is_highlighted_briefly(
    person: Person,
) -> None:
    page = person.open()
    say(page, "Our supplier closes in August")
    expect(answers(page)).to_contain_text("Hello.")

    question = page.locator(".message.from-user")
    button = question.get_by_role("button", name="Remember this")
    button.click()
    expect(button).to_have_class(re.compile("is-remembered"))
    expect(button).not_to_have_class(re.compile("is-remembered"))

    asked = {"source_type": "user"}
    [kept] = person.ask("GET", f"{person.workspace}/memories", params=asked)["items"]
    assert kept["content"] == "Our supplier closes in August"
    assert kept["source_message_id"] == question.get_attribute("data-id")


def test_R100_a_failure_is_shown_and_not_highlighted(person: Person) -> None:
    page = person.open()
    say(page, "Something to keep")
    expect(answers(page)).to_contain_text("Hello.")
    chat = page.url.rpartition("/")[2]

    person.ask("DELETE", f"/chat/api/chats/{chat}")
    button = page.locator(".message.from-user").get_by_role("button", name="Remember this")
    button.click()

    expect(page.locator(".message.from-user").get_by_role("alert")).to_be_visible()
    expect(button).not_to_have_class(re.compile("is-remembered"))
    person.ignore_errors("404")


def test_S76_an_answer_shows_the_memories_it_used_and_can_change_them(person: Person) -> None:
    memory = person.remember("The Lisbon office opens on 12 September", "fact")
    page = person.open()

    say(page, "The Lisbon office opens on 12 September")
    used = answers(page).locator("details")
    used.locator("summary").click()
    expect(used).to_contain_text("The Lisbon office opens on 12 September")
    expect(used.locator("meter")).to_be_visible()
    used.get_by_role("button", name="Edit").click()
    page.get_by_label("Text of the memory").fill("The Lisbon office opens on 19 September")
    page.get_by_role("button", name="Save").click()
    expect(used).to_contain_text("19 September")
    used.get_by_role("button", name="Pin").click()
    expect(page.get_by_text("Pinned")).to_be_visible()

    kept = person.ask("GET", f"{person.workspace}/memories/{memory['id']}")
    assert (kept["content"], kept["pinned"]) == ("The Lisbon office opens on 19 September", True)
    used.get_by_role("button", name="Forget").click()
    expect(page.locator("#memories-count")).to_have_text("0")


def test_a_draft_survives_a_reload_and_is_cleared_when_sent(person: Person) -> None:
    page = person.open()
    page.get_by_label("Message", exact=True).fill("half a thou")

    page.reload()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a thou")
    say(page, "half a thought, whole")
    expect(answers(page)).to_contain_text("Hello.")
    page.reload()

    expect(page.get_by_label("Message", exact=True)).to_have_value("")


def test_an_automatically_saved_memory_appears_with_undo(person: Person, model: Endpoint) -> None:
    finding = "The archive in Porto holds the deeds of 1911. " * 6
    learnt = '{"memories": [{"content": "The archive in Porto holds the deeds of 1911", "category": "fact", "quote": "The archive in Porto holds the deeds of 1911", "summary": "Deeds of 1911"}]}'
    model.default = lambda asked: Answer(finding if asked.json.get("stream") else learnt)
    page = person.open()

    page.get_by_label("Kind of turn").select_option("research")
    say(page, "Find out where the deeds are")
    note = page.locator(".auto-saved")
    expect(note).to_contain_text("The archive in Porto holds the deeds of 1911")
    expect(page.locator("#memories-count")).to_have_text("1")
    note.get_by_role("button", name="Undo").click()

    expect(page.locator("#memories-count")).to_have_text("0")
    assert person.ask("GET", f"{person.workspace}/memories")["items"] == []


def test_the_librarian_answers_and_a_failing_model_shows_an_error(
    person: Person, model: Endpoint
) -> None:
    page = person.open()
    page.get_by_label("Model").select_option("recollect-librarian")
    say(page, "Remember that Ben likes mint tea")
    expect(answers(page)).to_contain_text("I have saved that as memory.")
    expect(page.locator("#memories-count")).to_have_text("1")
    answers(page).get_by_role("button", name="memory", exact=True).click()
    expect(page.get_by_role("dialog", name="Memory")).to_contain_text("Ben likes mint tea")
    page.keyboard.press("Escape")

    model.default = RawAnswer([b"{}"], status=503, content_type="application/json")
    page.get_by_label("Model").select_option("m1")
    say(page, "And who are you?")

    expect(answers(page).last.get_by_role("alert")).to_contain_text("failed with status 503")
    model.default = Answer("I am m1.")
    page.get_by_role("button", name="Try again").click()
    expect(answers(page).last).to_contain_text("I am m1.")
    expect(page.locator(".message.from-user", has_text="And who are you?")).to_have_count(1)


def test_an_answer_can_be_stopped_and_its_partial_text_stays(
    person: Person, model: Endpoint
) -> None:
    model.default = Answer("slowly " * 400, pause=0.05)
    page = person.open()
    say(page, "Tell me slowly")
    expect(answers(page)).to_contain_text("slowly slowly")

    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.reload()
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    expect(answers(page)).to_contain_text("slowly slowly")
    say(page, "And again")
    expect(answers(page).last).to_contain_text("slowly slowly")
    page.keyboard.press("Escape")

    expect(page.get_by_text("You stopped this answer.")).to_have_count(2)
    expect(page.get_by_label("Message", exact=True)).to_be_enabled()


def test_a_running_answer_is_there_after_leaving_and_coming_back(
    person: Person, model: Endpoint
) -> None:
    model.default = Answer("word " * 60 + "and an end", pause=0.05)
    page = person.open()
    say(page, "Tell me slowly")
    expect(answers(page)).to_contain_text("word word")

    page.get_by_role("link", name="Documents").click()
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("The answer is being written…")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()

    expect(answers(page)).to_contain_text("and an end")
    expect(page.get_by_text("The answer is being written…")).to_have_count(0)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_temporary_turn_is_gone_after_a_reload(person: Person) -> None:
    page = person.open()
    say(page, "Keep this one")
    expect(answers(page)).to_contain_text("Hello.")

    page.get_by_role("button", name="Temporary").click()
    say(page, "Between us")
    expect(answers(page)).to_have_count(2)
    page.reload()

    expect(answers(page)).to_have_count(1)
    expect(page.get_by_text("Between us")).to_have_count(0)


def test_earlier_messages_load_on_request_and_can_be_copied(person: Person) -> None:
    async def talk(engine: Engine) -> str:
        thread = await create_dashboard_chat(engine, person.caller, "Long ago")
        await tell(engine, person.caller, thread, *(f"line {number}" for number in range(90)))
        return f"chat_{thread.code}"

    chat = person.site.run(talk)
    page = person.open(f"/#/chat/{chat}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    messages = page.locator(".message")
    expect(messages).to_have_count(40)

    page.get_by_role("button", name="Earlier messages").click()
    expect(messages).to_have_count(80)
    page.get_by_role("button", name="Earlier messages").click()
    expect(messages).to_have_count(90)
    expect(page.get_by_role("button", name="Earlier messages")).to_have_count(0)
    expect(messages.first).to_contain_text("line 0")
    messages.first.get_by_role("button", name="Copy").click()

    expect(messages.first.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "line 0"


def test_the_main_tasks_can_be_done_with_the_keyboard_alone(person: Person) -> None:
    login = person.give_password()
    context = person.browse()
    context.clear_cookies()
    page = context.new_page()
    page.goto("/login")
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type(login)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()

    # A question, because a statement would also be learnt automatically.
    page.keyboard.type("Which supplier closes in August?")
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("Hello.")
    walk_to(page, "Remember this", key="Shift+Tab")  # of the answer
    walk_to(page, "Remember this", key="Shift+Tab")  # of the question
    page.keyboard.press("Enter")
    expect(page.locator("#memories-count")).to_have_text("1")
    walk_to(page, "Memories", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#memories-panel .memory").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("supplier")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#memories-panel .score").first).to_be_visible()
    expect(page.locator("#memories-panel .memory:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Memory")).to_contain_text("History")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#memories-panel")).to_be_hidden()
    walk_to(page, "Chats", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Chats", exact=True)).to_be_visible()
    walk_to(page, "Which supplier")
    page.keyboard.press("Enter")

    expect(page.get_by_label("Chat title")).to_have_value("Which supplier closes in August?")
    person.ignore_errors("401")


def walk_to(page: Page, name: str, *, key: str = "Tab") -> None:
    """Press a key until the focused element's name starts with this text."""
    label = (
        "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText)"
    )
    for _ in range(60):
        page.keyboard.press(key)
        if " ".join(page.evaluate(label).split()).startswith(name):
            return
    raise AssertionError(f"The keyboard does not reach {name}.")


def test_two_tabs_show_the_same_chat(person: Person) -> None:
    context = person.browse()
    one = context.new_page()
    one.goto("/")
    say(one, "The first word")
    expect(answers(one)).to_contain_text("Hello.")
    other = context.new_page()
    other.goto(one.url)
    expect(answers(other)).to_have_count(1)

    say(one, "The second word")
    expect(answers(one)).to_have_count(2)

    expect(answers(other)).to_have_count(2)
    one.locator(".message.from-user").first.get_by_role("button", name="Remember this").click()
    expect(other.locator("#memories-count")).to_have_text("1")


def test_a_server_that_stops_during_an_answer_loses_no_text(
    person: Person, model: Endpoint
) -> None:
    model.script = [Answer("slowly " * 400, pause=0.05)]
    model.default = Answer("Here again.")
    page = person.open()
    say(page, "Tell me slowly")
    expect(answers(page)).to_contain_text("slowly slowly")

    person.site.stop()
    expect(page.get_by_text("Waiting for the server")).to_be_visible()
    person.site.start()

    expect(page.get_by_text("This answer was interrupted")).to_be_visible()
    expect(answers(page)).to_contain_text("slowly slowly")
    expect(page.locator(".message.from-user")).to_contain_text("Tell me slowly")
    say(page, "Are you there?")
    expect(answers(page).last).to_contain_text("Here again.")
    person.ignore_errors("ERR_")
    person.ignore_errors("Failed to load resource")
