"""Health checks: liveness, readiness, and the state of each service."""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from recollect import __version__
from recollect.core.errors import Unavailable
from recollect.core.tasks import run_within
from recollect.engine import Engine
from recollect.learning.inbox import backlog, describe_delay
from recollect.models.embedder import Purpose

# Endpoints charge for every request, so the result of a probe is reused for this long.
_PROBE_MAX_AGE = timedelta(seconds=60)
_TIMEOUT = timedelta(seconds=2)


class Health:
    """The health routes, for load balancers and people."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started = monotonic()
        self._embedder: tuple[str, datetime] | None = None
        # Set during shutdown: new requests go elsewhere while the running ones finish.
        self.is_shutting_down = False

    async def live(self, _: Request) -> Response:
        """Whether this process runs. Checks nothing else."""
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Whether requests can be served, and if not, which service is missing."""
        services = {"database": await self._database()}
        is_ready = services["database"] == "ok" and not self.is_shutting_down
        status = "shutting_down" if self.is_shutting_down else "ok" if is_ready else "unavailable"
        body = {"status": status, "services": services}
        return JSONResponse(body, 200 if is_ready else 503)

    async def overview(self, _: Request) -> Response:
        """The state of all services. 200 as long as saving and keyword search work."""
        services = {"database": await self._database(), "embedder": await self._embedder_state()}
        is_up = services["database"] == "ok"
        services["learning"], notice = await self._learning() if is_up else ("unavailable", None)
        body: dict[str, Any] = {
            "status": "unhealthy" if not is_up else _overall_status(services),
            "timestamp": self._engine.now().isoformat().replace("+00:00", "Z"),
            "version": __version__,
            "uptime_seconds": round(monotonic() - self._started, 1),
            "services": services,
        }
        if notice:
            body["notice"] = notice
        return JSONResponse(body, 200 if is_up else 503)

    async def _database(self) -> str:
        try:
            await run_within(_TIMEOUT.total_seconds(), self._ask())
        except (Unavailable, TimeoutError):
            return "unavailable"
        return "ok"

    async def _ask(self) -> None:
        await self._engine.pool.ping()

    async def _learning(self) -> tuple[str, str | None]:
        """Whether learning keeps up, and a text for people if it does not."""
        try:
            late = await run_within(_TIMEOUT.total_seconds(), self._behind())
        except (Unavailable, TimeoutError):
            return "unavailable", None
        return ("behind", f"{late[0].upper()}{late[1:]}.") if late else ("ok", None)

    async def _behind(self) -> str | None:
        now = self._engine.now()
        async with self._engine.pool.everywhere() as db:
            return describe_delay(await backlog(db, now), now)

    async def _embedder_state(self) -> str:
        now = self._engine.now()
        if self._embedder and now - self._embedder[1] < _PROBE_MAX_AGE:
            return self._embedder[0]
        try:
            embedder = self._engine.embedders.configured(None)
            await embedder.embed(["Are you there?"], Purpose.QUERY, deadline=_TIMEOUT)
            state = "ok"
        except Unavailable:
            state = "unavailable"
        self._embedder = (state, now)
        return state


def _overall_status(services: dict[str, str]) -> str:
    return "healthy" if all(state == "ok" for state in services.values()) else "degraded"
