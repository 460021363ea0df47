"""Composition: the front desk and the doors behind it, health and metrics, and what runs beside."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from hmac import compare_digest
from ipaddress import ip_address

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from recollect.doors import docs
from recollect.doors.alumia import app as alumia
from recollect.doors.cookies import Cookies
from recollect.doors.dashboard import app as dashboard
from recollect.doors.dashboard.turns import Turns
from recollect.doors.front import Door, Front, bearer
from recollect.doors.informer import app as informer
from recollect.doors.limits import Limiter, Sort, Turnstile
from recollect.doors.router import app as router
from recollect.doors.statebase import administration
from recollect.doors.statebase import app as statebase
from recollect.doors.tools import agents
from recollect.doors.tools import app as tools
from recollect.doors.tools.mcp_http import Mcp
from recollect.doors.under_way import UnderWay
from recollect.engine.core import Engine
from recollect.engine.keys import KeyRing
from recollect.engine.signin import Life, SignIns
from recollect.engine.talk import STOP
from recollect.health import Health
from recollect.measure import Measures
from recollect.settings import Settings
from recollect.store import identity, jobs
from recollect.store.listen import listen
from recollect.tasks import end
from recollect.worker import Worker

# How much faster than a key somebody at the page may ask.
_PAGE_PACE = 10


class Server:
    """Everything one process serves and runs beside it."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self.measures = Measures()
        self.ring = KeyRing(engine.pool, engine.now)
        self.health = Health(engine)
        self.worker = Worker(engine, slots=settings.workers, measures=self.measures)
        self._mcp = Mcp(engine, settings.names)
        self.under_way = UnderWay(engine.now)
        cookies = Cookies(self._sign_ins(settings), is_https=settings.https)
        self.doors: list[Door] = [
            alumia.door(engine),
            statebase.door(engine),
            administration.door(engine),
            router.door(engine, Turnstile(settings.turns_at_once)),
            informer.door(engine, self.ring, cookies, self.under_way),
            tools.door(engine),
            agents.door(engine),
            self._mcp.door,
            dashboard.door(engine, cookies, self._people(settings), Turns(self.under_way)),
        ]
        self.app: ASGIApp = Front(
            self.doors,
            self._house(),
            engine=engine,
            ring=self.ring,
            limiter=Limiter(settings.rate_per_minute, settings.rate_burst, engine.now),
            measures=self.measures,
            sorts=self._sorts(settings),
            proxies=settings.trusted_proxies,
            is_https=settings.https,
        )

    def _sign_ins(self, settings: Settings) -> SignIns:
        life = Life(timedelta(hours=settings.session_idle_hours), timedelta(settings.session_days))
        return SignIns(self._engine.pool, self._engine.now, life)

    def _sorts(self, settings: Settings) -> dict[Sort, Limiter]:
        """The limits that sorts of requests have of their own: a minute's worth at once."""
        wanted = {
            Sort.WRITE: settings.rate_writes,
            Sort.SEARCH: settings.rate_searches,
            Sort.TURN: settings.rate_turns,
            Sort.UPLOAD: settings.rate_uploads,
        }
        return {
            sort: Limiter(rate, rate, self._engine.now) for sort, rate in wanted.items() if rate
        }

    def _people(self, settings: Settings) -> Limiter:
        """A page asks more often than a program: for every letter typed, for every screen."""
        per_minute = settings.rate_per_minute * _PAGE_PACE
        return Limiter(per_minute, settings.rate_burst * _PAGE_PACE, self._engine.now)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """The worker, the listener and MCP, for as long as the block lasts."""
        is_open = asyncio.Event()
        speaking = asyncio.create_task(self._mcp.run(is_open))
        speaking.add_done_callback(lambda _: is_open.set())  # nor shall we wait for one that failed
        tasks = [speaking, *(asyncio.create_task(each) for each in self._listening())]
        if self._settings.workers:
            tasks.append(asyncio.create_task(self.worker.run()))
        try:
            await is_open.wait()
            if speaking.done():
                speaking.result()
            yield
        finally:
            self.health.is_leaving = True
            await self.under_way.close()
            await end(tasks)

    def _listening(self) -> list[Coroutine[None, None, None]]:
        # PgBouncer in transaction mode cannot carry LISTEN: workers poll, and so do we.
        if self._settings.pgbouncer:
            return [self.ring.watch(), self.under_way.watch(self._engine)]
        return [
            listen(
                self._engine.pool.url,
                {
                    jobs.CHANNEL: lambda _: self.worker.wake(),
                    identity.CHANNEL: lambda _: self.ring.forget(),
                    STOP: self.under_way.hear,
                },
            )
        ]

    def _house(self) -> Starlette:
        """What stands behind no door: nothing here shows anybody's data."""
        routes = [
            Route("/docs", self._docs),
            Route("/docs.css", docs.style),
            Route("/openapi/{door}.json", self._openapi),
            Route("/health", self.health.overview),
            Route("/health/live", self.health.live),
            Route("/health/ready", self.health.ready),
            Route("/metrics", self._metrics),
        ]
        return Starlette(
            routes=routes, exception_handlers={404: _no_route, 405: _no_route, 500: _bug}
        )

    async def _docs(self, _: Request) -> Response:
        return HTMLResponse(docs.page(self.doors), headers=docs.HEADERS)

    async def _openapi(self, request: Request) -> Response:
        wanted = request.path_params["door"]
        for door in self.doors:
            if door.name == wanted:
                return JSONResponse(docs.openapi(door))
        return _not_found()

    async def _metrics(self, request: Request) -> Response:
        if not self._may_read_metrics(request):
            return _not_found()
        async with self._engine.pool.everywhere() as db:
            depths = await jobs.depth(db)
        now = self._engine.now()
        oldest = [each.oldest for each in depths if each.status == "pending" and each.oldest]
        age = max(((now - each).total_seconds() for each in oldest), default=0.0)
        self.measures.queue({each.status: each.count for each in depths}, max(age, 0.0))
        self.measures.pool(self._engine.pool.statistics)
        return PlainTextResponse(
            self.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def _may_read_metrics(self, request: Request) -> bool:
        if self._settings.metrics_key:
            given = bearer(request.headers) or ""
            return compare_digest(given.encode(), self._settings.metrics_key.encode())
        return bool(request.client) and _is_local(request.client.host)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _not_found() -> Response:
    return _told(404, "not_found", "There is nothing here. `/docs` lists what there is.")


async def _no_route(_: Request, error: Exception) -> Response:
    if getattr(error, "status_code", 404) != 405:
        return _not_found()
    told = _told(405, "method_not_allowed", "Not with this method.")
    told.headers.update(dict(getattr(error, "headers", None) or {}))
    return told


async def _bug(_: Request, __: Exception) -> Response:
    return _told(500, "server_error", "Something went wrong on our side.")


def _told(status: int, code: str, message: str) -> Response:
    """Behind no door: as the clients read it that come looking for more of their `/v1`."""
    kind = "server_error" if status == 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status)
