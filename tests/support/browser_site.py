"""The whole application on a port, with users who open it in a browser."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

import httpx2
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page

from recollect.core.domain import Caller
from recollect.core.settings import Settings
from recollect.engine import Clock, Engine
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder_registry import Embedders
from recollect.server import Server
from recollect.tenancy.keys import hash_password
from tests.support.dashboard import PASSWORD, cookie_for
from tests.support.instance import new_caller, open_engine

T = TypeVar("T")
SECONDS = 30


def _now() -> datetime:
    return datetime.now(UTC)


class Site:
    """A server in its own thread and event loop, which can be stopped and started again."""

    def __init__(
        self,
        database_url: str,
        embedders: Embedders,
        chats: Callable[[], ChatModels],
        now: Clock = _now,
    ) -> None:
        self._database_url = database_url
        self._now = now
        self._embedders = embedders
        self._chats = chats
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.engine: Engine | None = None

    def start(self) -> None:
        """Start the server; return when it responds."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)))
        self._thread.start()
        assert ready.wait(SECONDS)

    def stop(self) -> None:
        """Stop at once, even in the middle of a response."""
        assert self._server
        assert self._thread
        self._server.force_exit = self._server.should_exit = True
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def run(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with the engine in the server's event loop."""
        assert self._loop
        assert self.engine
        return asyncio.run_coroutine_threadsafe(work(self.engine), self._loop).result(SECONDS)

    async def _run(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        chats = self._chats()
        async with open_engine(
            self._database_url, self._embedders, self._now, chat_models=chats
        ) as engine:
            self.engine = engine
            server = Server(Settings(rate_per_minute=0, workers=1), engine)
            config = uvicorn.Config(
                server.app,
                host="127.0.0.1",
                port=self.port,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=0,
            )
            self._server = uvicorn.Server(config)
            async with server.running():
                serving = asyncio.create_task(self._server.serve())
                while not self._server.started:
                    await asyncio.sleep(0.01)
                ready.set()
                await serving
        await chats.aclose()


@dataclass
class Person:
    """A user with their own org and workspace, and their browser."""

    site: Site
    browser: Browser
    caller: Caller
    token: str
    page_errors: list[str] = field(default_factory=list[str])
    contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])

    @cached_property
    def client(self) -> httpx2.Client:
        """A reusable HTTP client of this user."""
        return self.http()

    @property
    def workspace(self) -> str:
        """The path of the workspace's routes."""
        return f"/chat/api/workspaces/ws_{self.caller.workspace_id}"

    def http(self) -> httpx2.Client:
        """A new HTTP client with the user's session cookie."""
        return httpx2.Client(
            base_url=self.site.url, cookies={"session": self.token}, timeout=SECONDS
        )

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """Send a request; return the JSON of its response."""
        response = self.client.request(method, path, **options)
        assert response.is_success, (method, path, response.status_code, response.text)
        return response.json() if response.content else None

    def remember(self, content: str, category: str | None = None) -> dict[str, Any]:
        """Create a memory in the workspace."""
        body = {"content": content, "category": category}
        return self.ask("POST", f"{self.workspace}/memories", json=body)

    def give_password(self) -> str:
        """Set the password `PASSWORD`; return the user's login."""

        async def make(engine: Engine) -> str:
            async with engine.pool.everywhere() as db:
                cursor = await db.execute(
                    "UPDATE app_user SET password_hash = %s WHERE id = %s RETURNING login",
                    (hash_password(PASSWORD), self.caller.user_id),
                )
                row = await cursor.fetchone()
                assert row
                return row[0]

        return self.site.run(make)

    def browse(self, **options: Any) -> BrowserContext:
        """A new browser context, signed in. Collects the errors of its pages."""
        defaults: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
        context = self.browser.new_context(base_url=self.site.url, **(defaults | options))
        context.set_default_timeout(SECONDS * 1_000)
        context.add_cookies([{"name": "session", "value": self.token, "url": self.site.url}])
        context.add_init_script("try { localStorage.setItem('recollect.toured', 'yes') } catch {}")
        context.on("page", self.collect_errors)
        self.contexts.append(context)
        return context

    def open(self, path: str = "/", **options: Any) -> Page:
        """Open a page in a new browser context."""
        page = self.browse(**options).new_page()
        page.goto(path)
        return page

    def collect_errors(self, page: Page) -> None:
        """Collect errors, policy violations and requests to other hosts."""
        page.on(
            "console",
            lambda message: (
                self.page_errors.append(f"{message.type}: {message.text}")
                if message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: self.page_errors.append(f"uncaught: {error}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((self.site.url, "blob:", "data:"))
                else self.page_errors.append(f"elsewhere: {request.url}")
            ),
        )

    def ignore_errors(self, part: str) -> None:
        """Drop the errors that contain `part`, which the test caused on purpose."""
        self.page_errors[:] = [each for each in self.page_errors if part not in each]


def add_person(site: Site, browser: Browser) -> Person:
    """Create a user with a session."""

    async def make(engine: Engine) -> tuple[Caller, str]:
        caller = await new_caller(engine)
        return caller, await cookie_for(engine, caller.user_id)

    caller, token = site.run(make)
    return Person(site, browser, caller, token)
