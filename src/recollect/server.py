"""The server: the gateway and its interfaces, health, metrics, docs and background tasks."""

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

from recollect.api import docs
from recollect.api.alumia import app as alumia
from recollect.api.connections import Connections, limits_of
from recollect.api.cookies import Cookies
from recollect.api.dashboard import app as dashboard
from recollect.api.dashboard.turns import Turns
from recollect.api.gateway import Gateway, Interface, bearer
from recollect.api.health import Health
from recollect.api.informer import app as informer
from recollect.api.openai import app as router
from recollect.api.rate_limits import ConcurrentTurns, Limiter, RequestKind
from recollect.api.running_turns import RunningTurns
from recollect.api.statebase import administration
from recollect.api.statebase import app as statebase
from recollect.api.tools import agents
from recollect.api.tools import app as tools
from recollect.api.tools.mcp_http import Mcp
from recollect.chat.dashboard_chats import STOP
from recollect.core.settings import Settings
from recollect.core.tasks import cancel_all
from recollect.db import job_queue
from recollect.db.notifications import listen
from recollect.engine import Engine
from recollect.learning.inbox import backlog
from recollect.tenancy.keys import KeyCache
from recollect.tenancy.queries import keys as keys_queries
from recollect.tenancy.sign_in import SessionLifetime, SignIns
from recollect.worker import Worker

# A user of the web page may make this many times more requests than a key.
_PAGE_RATE_FACTOR = 10


class Server:
    """Everything that one process serves, and its background tasks."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self.metrics = engine.metrics
        self.connections = Connections(limits_of(settings), self.metrics)
        self.key_cache = KeyCache(engine.pool, engine.now)
        self.health = Health(engine)
        self.worker = Worker(engine, slots=settings.workers, metrics=self.metrics)
        self._mcp = Mcp(engine, settings.names)
        self.running_turns = RunningTurns(engine.now)
        cookies = Cookies(self._sign_ins(settings), is_https=settings.https)
        self.interfaces: list[Interface] = [
            alumia.new_interface(engine),
            statebase.new_interface(engine),
            administration.new_interface(engine),
            router.new_interface(engine, ConcurrentTurns(settings.turns_at_once)),
            informer.new_interface(engine, self.key_cache, cookies, self.running_turns),
            tools.new_interface(engine),
            agents.new_interface(engine),
            self._mcp.interface,
            dashboard.new_interface(
                engine, cookies, self._page_limiter(settings), Turns(self.running_turns)
            ),
        ]
        self.app: ASGIApp = Gateway(
            self.interfaces,
            self._own_routes(),
            engine=engine,
            key_cache=self.key_cache,
            limiter=Limiter(settings.rate_per_minute, settings.rate_burst, engine.now),
            metrics=self.metrics,
            kind_limiters=self._kind_limiters(settings),
            proxies=settings.trusted_proxies,
            is_https=settings.https,
        )

    def _sign_ins(self, settings: Settings) -> SignIns:
        life = SessionLifetime(
            timedelta(hours=settings.session_idle_hours), timedelta(settings.session_days)
        )
        return SignIns(self._engine.pool, self._engine.now, life)

    def _kind_limiters(self, settings: Settings) -> dict[RequestKind, Limiter]:
        """The limits of each kind of request. The burst is one minute's allowance."""
        rates = {
            RequestKind.WRITE: settings.rate_writes,
            RequestKind.SEARCH: settings.rate_searches,
            RequestKind.TURN: settings.rate_turns,
            RequestKind.UPLOAD: settings.rate_uploads,
        }
        return {kind: Limiter(rate, rate, self._engine.now) for kind, rate in rates.items() if rate}

    def _page_limiter(self, settings: Settings) -> Limiter:
        """The limit of the web page, which sends more requests: one per keystroke and screen."""
        per_minute = settings.rate_per_minute * _PAGE_RATE_FACTOR
        return Limiter(per_minute, settings.rate_burst * _PAGE_RATE_FACTOR, self._engine.now)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the worker, the listeners and MCP until the block ends."""
        is_open = asyncio.Event()
        mcp = asyncio.create_task(self._mcp.run(is_open))
        mcp.add_done_callback(lambda _: is_open.set())  # do not wait for one that failed
        tasks = [mcp, *(asyncio.create_task(each) for each in self._listeners())]
        if self._settings.workers:
            tasks.append(asyncio.create_task(self.worker.run()))
        try:
            await is_open.wait()
            if mcp.done():
                mcp.result()
            yield
        finally:
            self.health.is_shutting_down = True
            await self.running_turns.close()
            await cancel_all(tasks)

    def _listeners(self) -> list[Coroutine[None, None, None]]:
        # PgBouncer in transaction mode does not support LISTEN, so everything polls.
        if self._settings.pgbouncer:
            return [self.key_cache.watch(), self.running_turns.watch(self._engine)]
        return [
            listen(
                self._engine.pool.url,
                {
                    job_queue.CHANNEL: lambda _: self.worker.wake(),
                    keys_queries.CHANNEL: lambda _: self.key_cache.forget(),
                    STOP: self.running_turns.stop_from_notification,
                },
            )
        ]

    def _own_routes(self) -> Starlette:
        """The routes of the server itself, outside all interfaces. None of them shows user data."""
        routes = [
            Route("/docs", self._docs),
            Route("/docs.css", docs.style),
            Route("/openapi/{interface}.json", self._openapi),
            Route("/health", self.health.overview),
            Route("/health/live", self.health.live),
            Route("/health/ready", self.health.ready),
            Route("/metrics", self._metrics),
        ]
        return Starlette(
            routes=routes, exception_handlers={404: _no_route, 405: _no_route, 500: _bug}
        )

    async def _docs(self, _: Request) -> Response:
        return HTMLResponse(docs.page(self.interfaces), headers=docs.HEADERS)

    async def _openapi(self, request: Request) -> Response:
        name = request.path_params["interface"]
        for interface in self.interfaces:
            if interface.name == name:
                return JSONResponse(docs.openapi(interface))
        return _not_found()

    async def _metrics(self, request: Request) -> Response:
        if not self._may_read_metrics(request):
            return _not_found()
        now = self._engine.now()
        async with self._engine.pool.everywhere() as db:
            depths = await job_queue.depth(db)
            learning = await backlog(db, now)
        oldest = [each.oldest for each in depths if each.status == "pending" and each.oldest]
        age = max(((now - each).total_seconds() for each in oldest), default=0.0)
        self.metrics.set_queue({each.status: each.count for each in depths}, max(age, 0.0))
        waited = (now - learning.since).total_seconds() if learning.since else 0.0
        self.metrics.set_learning(learning.pending, max(waited, 0.0), learning.by_rules)
        self.metrics.set_pool(self._engine.pool.statistics)
        self.metrics.set_connections(self.connections.count())
        return PlainTextResponse(
            self.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def _may_read_metrics(self, request: Request) -> bool:
        if self._settings.metrics_key:
            key = bearer(request.headers) or ""
            return compare_digest(key.encode(), self._settings.metrics_key.encode())
        return bool(request.client) and _is_local(request.client.host)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _not_found() -> Response:
    return _error(404, "not_found", "There is no such route. See `/docs` for a list.")


async def _no_route(_: Request, error: Exception) -> Response:
    if getattr(error, "status_code", 404) != 405:
        return _not_found()
    response = _error(405, "method_not_allowed", "Method not allowed.")
    response.headers.update(dict(getattr(error, "headers", None) or {}))
    return response


async def _bug(_: Request, __: Exception) -> Response:
    return _error(500, "server_error", "Something went wrong on our side.")


def _error(status: int, code: str, message: str) -> Response:
    """An error in OpenAI's format, for clients that look for an unsupported `/v1` route."""
    kind = "server_error" if status == 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status)
