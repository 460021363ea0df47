"""The composed application on a port, with people who use it in a browser."""

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

from recollect.domain import Caller
from recollect.engine.core import Clock, Engine
from recollect.engine.keys import hash_password
from recollect.models.chats import Chats
from recollect.models.registry import Embedders
from recollect.server import Server
from recollect.settings import Settings
from tests.support.dashboard import PASSWORD, cookie_for
from tests.support.house import new_caller, open_house

T = TypeVar("T")
SECONDS = 30


def _now() -> datetime:
    return datetime.now(UTC)


class Site:
    """A server in a thread with a loop of its own, which can go away and come back."""

    def __init__(
        self,
        database_url: str,
        embedders: Embedders,
        chats: Callable[[], Chats],
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
        """Serve, and come back when it answers."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)))
        self._thread.start()
        assert ready.wait(SECONDS)

    def stop(self) -> None:
        """Go away at once, in the middle of whatever was being said."""
        assert self._server
        assert self._thread
        self._server.force_exit = self._server.should_exit = True
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def do(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        """Run something with the engine, in the server's loop."""
        assert self._loop
        assert self.engine
        return asyncio.run_coroutine_threadsafe(work(self.engine), self._loop).result(SECONDS)

    async def _run(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        chats = self._chats()
        async with open_house(
            self._database_url, self._embedders, self._now, chats=chats
        ) as engine:
            self.engine = engine
            house = Server(Settings(rate_per_minute=0, workers=1), engine)
            config = uvicorn.Config(
                house.app,
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
            async with house.running():
                serving = asyncio.create_task(self._server.serve())
                while not self._server.started:
                    await asyncio.sleep(0.01)
                ready.set()
                await serving
        await chats.aclose()


@dataclass
class Person:
    """Somebody with an org and a workspace of their own, and their browser."""

    site: Site
    browser: Browser
    caller: Caller
    token: str
    complaints: list[str] = field(default_factory=list[str])
    contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])

    @cached_property
    def client(self) -> httpx2.Client:
        """Their connection."""
        return self.http()

    @property
    def workspace(self) -> str:
        """Where the workspace's routes are."""
        return f"/chat/api/workspaces/ws_{self.caller.workspace_id}"

    def http(self) -> httpx2.Client:
        """The same person without a browser."""
        return httpx2.Client(
            base_url=self.site.url, cookies={"session": self.token}, timeout=SECONDS
        )

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of a route."""
        answer = self.client.request(method, path, **options)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def remember(self, content: str, category: str | None = None) -> dict[str, Any]:
        """A memory in the workspace."""
        body = {"content": content, "category": category}
        return self.ask("POST", f"{self.workspace}/memories", json=body)

    def give_password(self) -> str:
        """Let them sign in with `PASSWORD`; their name."""

        async def make(engine: Engine) -> str:
            async with engine.pool.everywhere() as db:
                cursor = await db.execute(
                    "UPDATE app_user SET password_hash = %s WHERE id = %s RETURNING login",
                    (hash_password(PASSWORD), self.caller.user_id),
                )
                row = await cursor.fetchone()
                assert row
                return row[0]

        return self.site.do(make)

    def browse(self, **options: Any) -> BrowserContext:
        """A browser of their own, signed in; what its pages complain about is kept."""
        wide: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
        context = self.browser.new_context(base_url=self.site.url, **(wide | options))
        context.set_default_timeout(SECONDS * 1_000)
        context.add_cookies([{"name": "session", "value": self.token, "url": self.site.url}])
        context.add_init_script("try { localStorage.setItem('recollect.toured', 'yes') } catch {}")
        context.on("page", self.listen_to)
        self.contexts.append(context)
        return context

    def open(self, place: str = "/", **options: Any) -> Page:
        """A page in a browser of its own."""
        page = self.browse(**options).new_page()
        page.goto(place)
        return page

    def listen_to(self, page: Page) -> None:
        """Keep every error, every violation of the policy and every request to elsewhere."""
        page.on(
            "console",
            lambda said: (
                self.complaints.append(f"{said.type}: {said.text}")
                if said.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith((self.site.url, "blob:", "data:"))
                else self.complaints.append(f"elsewhere: {asked.url}")
            ),
        )

    def forgive(self, part: str) -> None:
        """Drop complaints that the test brought about."""
        self.complaints[:] = [each for each in self.complaints if part not in each]


def arrive(site: Site, browser: Browser) -> Person:
    """Somebody new."""

    async def make(engine: Engine) -> tuple[Caller, str]:
        caller = await new_caller(engine)
        return caller, await cookie_for(engine, caller.user_id)

    caller, token = site.do(make)
    return Person(site, browser, caller, token)
