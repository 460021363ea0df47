"""One server and one browser for all tests of the page; each test has a new user.

Playwright keeps an event loop running in its thread while the browser is open, so other tests could
not run their own loop there. Browser and tests therefore run in a separate thread.
"""

import inspect
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, expect

from recollect.models import librarian
from recollect.models.chat_registry import ChatModels
from tests.support.browser_site import SECONDS, Person, Site, add_person
from tests.support.chromium import browser as open_browser
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import serve_app
from tests.support.upstream import Endpoint, chat_models_at

T = TypeVar("T")
_THREAD = ThreadPoolExecutor(1, "browser")

expect.set_options(
    timeout=SECONDS * 1_000
)  # the default of five seconds is short on a busy machine


def _in_browser_thread(work: Callable[[], T]) -> T:
    return _THREAD.submit(work).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run a test of this folder in the browser's thread."""
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    _in_browser_thread(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture(scope="session")
def model() -> Endpoint:
    """The chat model of all tests, which returns scripted answers."""
    return Endpoint()


@pytest.fixture(scope="session")
def site(databases: TestDatabases, embedder: StubEmbedder, model: Endpoint) -> Generator[Site]:
    # A separate database: the worker and clock are real and would run jobs that other tests queue.
    database_url = databases.clone()
    with serve_app(model) as upstream:

        def chats() -> ChatModels:
            return chat_models_at(upstream, {librarian.NAME: librarian.Librarian()}, model="m1")

        site = Site(database_url, single_embedder(embedder), chats)
        site.start()
        yield site
        site.stop()


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    opening = open_browser()
    yield _in_browser_thread(opening.__enter__)
    _in_browser_thread(lambda: opening.__exit__(None, None, None))


@pytest.fixture
def person(site: Site, browser: Browser, model: Endpoint) -> Generator[Person]:
    """A new user, whose pages must have logged no errors at the end."""
    model.reset()
    user = add_person(site, browser)
    yield user
    for context in user.contexts:
        _in_browser_thread(context.close)
    user.client.close()
    assert user.page_errors == []
