"""`make screenshots`: every page of a server with sample data, light and dark, wide and narrow."""

import argparse
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, expect

from recollect.core.domain import Ref, Relation
from recollect.core.logging import configure_logging
from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.memories.links import Link, link
from recollect.models import librarian
from recollect.models.chat_registry import ChatModels
from recollect.models.lazy_embedder import LazyEmbedder
from tests.support.browser_site import Person, Site, add_person
from tests.support.chromium import browser
from tests.support.database import TestDatabases, make_home, remove_home
from tests.support.instance import single_embedder
from tests.support.live_server import serve_app
from tests.support.upstream import Answer, Endpoint, ReceivedRequest, chat_models_at

SHOWN = Path("docs/screenshots")
SIZES = {"wide": (1280, 800), "narrow": (360, 740)}
THEMES = ("light", "dark")
# The pictures that the documents show. The others are for reviewing the design.
KEPT = {"chat-wide-dark", "chat-narrow-light", "chat-narrow-dark", "graph-wide-dark"}

MODEL = "qwen3-32b"
TODAY = datetime.now(UTC)


def _on(days: int) -> str:
    """A future date as text, so that the opening in Lisbon is always ahead."""
    then = TODAY + timedelta(days=days)
    return f"{then.day} {then:%B}"


MEMORIES = [
    (61, f"The Lisbon office opens on {_on(26)}", "fact"),
    (60, "The lease of the Lisbon office in Rua Augusta runs for five years", "fact"),
    (58, "Ada leads the move to Lisbon", "fact"),
    (55, "Ada takes her tea without milk", "preference"),
    (51, "Ben prefers answers as bullet points", "preference"),
    (45, "Deploys stop on Fridays after noon", "instruction"),
    (40, "We chose PostgreSQL over a separate vector store, to have one backup", "decision"),
    (
        38,
        "Backups run every night at 02:00 and are restored once a month to see that they can be",
        "fact",
    ),
    (33, "Customer Acme wants its invoices in euro", "preference"),
    (30, "Acme pays within 30 days", "fact"),
    (24, "The quarterly review meets every Thursday at ten in the large room", "fact"),
    (20, "Carla is allergic to peanuts", "fact"),
    (16, "Carla books the flights to Lisbon", "fact"),
    (12, "Release notes are written in the present tense", "instruction"),
    (9, f"The furniture for Lisbon arrives on {_on(22)}", "fact"),
    (6, f"The network in Lisbon goes live on {_on(23)}", "fact"),
    (3, "Deploys to production need two approvals", "instruction"),
    (2, f"Dan joins the Lisbon team on {_on(40)}", "fact"),
]
LINKS = [
    ("The lease of", "office opens", Relation.PART_OF),
    ("furniture", "office opens", Relation.PART_OF),
    ("network", "office opens", Relation.PART_OF),
    ("Ada leads", "office opens", Relation.RELATED_TO),
    ("flights", "Ada leads", Relation.RELATED_TO),
    ("Dan joins", "Ada leads", Relation.RELATED_TO),
    ("tea without milk", "Ada leads", Relation.RELATED_TO),
    ("on Fridays", "two approvals", Relation.PART_OF),
    ("Release notes", "two approvals", Relation.RELATED_TO),
    ("Backups run", "chose PostgreSQL", Relation.RESULT_OF),
    ("pays within", "invoices in euro", Relation.RELATED_TO),
    ("peanuts", "flights", Relation.RELATED_TO),
]
# Other chats: days ago, title and question.
CHATS = [
    (44, "Which database?", "Why did we not take a separate vector store?"),
    (36, "Restoring a backup", "How often do we try our backups?"),
    (29, "Invoices for Acme", "What does Acme want on its invoices, and when do they pay?"),
    (22, "Agenda for the review", "When does the quarterly review meet?"),
    (18, "Menu for the team dinner", "Is anybody allergic to something?"),
    (13, "Flights to Lisbon", "Who books the flights?"),
    (10, "Release notes", "How do we write release notes?"),
    (7, "Furniture", "When does the furniture arrive?"),
    (4, "Deploy on Friday?", "May we deploy on Friday afternoon?"),
    (1, "Who is coming along", "Who joins the team in Lisbon?"),
]
ANSWER = f"""The **Lisbon office** opens on *{_on(26)}*. Before that:

- the furniture arrives on {_on(22)},
- the network goes live on {_on(23)}.

Ada leads the move; Carla books the flights."""
LEASE = """# Lease of Rua Augusta 12

The lease of the premises begins on the first of September and runs for five years,
with an option to renew for another five. The rent is paid every quarter.
"""


class Calendar:
    """A clock that can be set back by some days."""

    def __init__(self) -> None:
        self.back = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) - self.back


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=SHOWN, help="the output directory")
    parser.add_argument("--only", help="names of pages, separated by commas")
    options = parser.parse_args()
    with _site() as (person, calendar):
        paths = add_sample_data(person, calendar)
        wanted = options.only.split(",") if options.only else list(paths)
        for theme in THEMES:
            for size in SIZES:
                _shoot(person, {name: paths[name] for name in wanted}, theme, size, options.to)


@contextmanager
def _site() -> Generator[tuple[Person, Calendar]]:
    home = make_home()
    databases = TestDatabases()
    calendar = Calendar()
    model = Endpoint()
    model.models, model.owner = [MODEL], "our own server"
    model.default = _answer
    settings = Settings()
    embedder = LazyEmbedder(settings.weights_dir, Path(tempfile.gettempdir()))
    with serve_app(model) as upstream, browser() as running:

        def chats() -> ChatModels:
            return chat_models_at(upstream, {librarian.NAME: librarian.Librarian()}, model=MODEL)

        site = Site(databases.clone(), single_embedder(embedder), chats, calendar)
        site.start()
        try:
            yield add_person(site, running), calendar
        finally:
            site.stop()
    databases.close()
    remove_home(home)


def _answer(request: ReceivedRequest) -> Answer:
    tokens = {"prompt_tokens": 900 + len(request.body) % 700, "completion_tokens": 120}
    return Answer(ANSWER, usage=tokens)


def add_sample_data(person: Person, calendar: Calendar) -> Mapping[str, str]:
    """Add two months of a user's data; return the path of each page."""
    person.site.run(lambda engine: _name(engine, person))
    for days, content, category in MEMORIES:
        calendar.back = timedelta(days=days, hours=days % 7)
        person.remember(content, category)
    for days, title, question in CHATS:
        calendar.back = timedelta(days=days, hours=days % 5)
        _ask(person, question, title)
    calendar.back = timedelta()
    chat = _ask(person, "When do we open in Lisbon, and what happens before?", "Opening in Lisbon")
    with person.http() as http:
        for name, body in (("lease.md", LEASE.encode()), ("floor plan.dwg", b"\x00\x01" * 900)):
            http.post(f"{person.workspace}/documents", files={"file": (name, body)})
    memories = person.ask("GET", f"{person.workspace}/memories", params={"limit": 100})["items"]
    pinned = next(each for each in memories if "two approvals" in each["content"])
    person.ask("POST", f"{person.workspace}/memories/{pinned['id']}/pin", json={"pinned": True})
    first = memories[-1]
    person.site.run(lambda engine: _link_memories(engine, person, memories))
    return {
        "new": "/#/",
        "chat": f"/#/chat/{chat}",
        "chats": "/#/chats",
        "memories": "/#/memories",
        "graph": "/#/memories?view=graph",
        "memory": f"/#/memory/{first['id']}",
        "documents": "/#/documents",
        "timeline": f"/#/timeline?as_of={TODAY - timedelta(days=21):%Y-%m-%d}",
        "search": "/#/search?q=When+does+the+lease+begin",
        "jobs": "/#/jobs",
        "usage": "/#/usage",
        "settings": "/#/settings",
        "login": "/login",
    }


async def _link_memories(
    engine: Engine, person: Person, memories: Sequence[Mapping[str, Any]]
) -> None:
    """Link related memories, as agents do."""

    def about(words: str) -> Ref:
        found = next(each["id"] for each in memories if words in each["content"])
        return Ref(code=found.removeprefix("mem_"))

    for one, other, relation in LINKS:
        await link(engine, person.caller, about(one), Link(about(other), relation, 0.8))


async def _name(engine: Engine, person: Person) -> None:
    async with engine.pool.everywhere() as db:
        await db.execute(
            "UPDATE app_user SET login = 'ada' WHERE id = %s", (person.caller.user_id,)
        )
        await db.execute("UPDATE org SET name = 'Northwind' WHERE id = %s", (person.caller.org_id,))
        await db.execute(
            "UPDATE workspace SET name = 'Home' WHERE id = %s", (person.caller.workspace_id,)
        )


def _ask(person: Person, content: str, title: str = "") -> str:
    chat: str = person.ask("POST", "/chat/api/chats", json={"title": title or content})["id"]
    with person.http() as http:
        http.post(f"/chat/api/chats/{chat}/turns", json={"content": content, "kind": "chat"})
    return chat


def _shoot(person: Person, paths: Mapping[str, str], theme: str, size: str, to: Path) -> None:
    width, height = SIZES[size]
    options: dict[str, Any] = {"is_mobile": True, "has_touch": True} if size == "narrow" else {}
    context = person.browse(color_scheme=theme, **options)
    for name, path in paths.items():
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path)
        page.wait_for_load_state("networkidle")
        _prepare_page(page, name, size)
        label = f"{name}-{size}-{theme}"
        is_kept = (size, theme) == ("wide", "light") or label in KEPT
        _write(page.screenshot(), (to if is_kept else to / "all") / f"{label}.png")
        page.close()


def _prepare_page(page: Page, name: str, size: str) -> None:
    if name != "chat":
        return
    used = page.locator("details.injected summary").last
    expect(used).to_be_visible()
    used.click()
    if size == "wide":
        page.locator("#memories-toggle").click()
        expect(page.locator("#memories-panel .memory").first).to_be_visible()
    page.mouse.move(0, 0)
    page.locator(".chat-scroll").evaluate("element => element.scrollTo(0, 0)")


def _write(shot: bytes, path: Path) -> None:
    """Write a PNG of 256 colours, which looks the same and has a third of the size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(BytesIO(shot)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    configure_logging("error", "text")
    main()
