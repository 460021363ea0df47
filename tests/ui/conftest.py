"""One server and one browser for all tests of the page; each test is somebody new.

Playwright keeps an event loop running in its thread for as long as the browser lives, where no other
test could run its own. So browser and tests live in a thread apart.
"""

import inspect
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, expect

from recollect.models import librarian
from recollect.models.chats import Chats
from tests.support.chromium import browser as open_browser
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import on_a_port
from tests.support.site import SECONDS, Person, Site, arrive
from tests.support.upstream import Endpoint, chats_of

T = TypeVar("T")
_THREAD = ThreadPoolExecutor(1, "browser")

expect.set_options(timeout=SECONDS * 1_000)  # five seconds are few on a busy machine


def _apart(work: Callable[[], T]) -> T:
    return _THREAD.submit(work).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run a test of this folder in the browser's thread."""
    names = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in names}
    _apart(lambda: pyfuncitem.obj(**given))
    return True


@pytest.fixture(scope="session")
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture(scope="session")
def model() -> Endpoint:
    """The chat model of all tests, which says what it is told to."""
    return Endpoint()


@pytest.fixture(scope="session")
def site(databases: TestDatabases, embedder: StubEmbedder, model: Endpoint) -> Generator[Site]:
    # Of its own: its worker and its clock are real, and would see to what other tests leave waiting.
    database_url = databases.clone()
    with on_a_port(model) as upstream:

        def chats() -> Chats:
            return chats_of(upstream, {librarian.NAME: librarian.Librarian()}, model="m1")

        site = Site(database_url, only(embedder), chats)
        site.start()
        yield site
        site.stop()


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    opening = open_browser()
    yield _apart(opening.__enter__)
    _apart(lambda: opening.__exit__(None, None, None))


@pytest.fixture
def person(site: Site, browser: Browser, model: Endpoint) -> Generator[Person]:
    """Somebody new, whose pages have nothing to complain about in the end."""
    model.reset()
    somebody = arrive(site, browser)
    yield somebody
    for context in somebody.contexts:
        _apart(context.close)
    somebody.client.close()
    assert somebody.complaints == []
