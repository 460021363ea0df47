"""Health: alive, ready, and how each part is doing."""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from recollect import __version__
from recollect.engine.core import Engine
from recollect.errors import Unavailable
from recollect.models.embed import Purpose
from recollect.store import health
from recollect.tasks import within

# An endpoint is billed for every question; nobody needs to know more often than this.
_PROBE_KEPT = timedelta(seconds=60)
_PATIENCE = timedelta(seconds=2)


class Health:
    """What load balancers and people ask."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began = monotonic()
        self._embedder: tuple[str, datetime] | None = None
        # Set when shutting down: no new work, while what is under way ends.
        self.is_leaving = False

    async def live(self, _: Request) -> Response:
        """Whether this process runs; touches nothing."""
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Whether requests can be served, and if not, what is missing."""
        services = {"database": await self._database()}
        is_ready = services["database"] == "ok" and not self.is_leaving
        status = "leaving" if self.is_leaving else "ok" if is_ready else "unavailable"
        body = {"status": status, "services": services}
        return JSONResponse(body, 200 if is_ready else 503)

    async def overview(self, _: Request) -> Response:
        """Everything at a glance; 200 as long as memories can be saved and found by words."""
        services = {"database": await self._database(), "embedder": await self._embedder_state()}
        is_up = services["database"] == "ok"
        body: dict[str, Any] = {
            "status": "unhealthy" if not is_up else _verdict(services),
            "timestamp": self._engine.now().isoformat().replace("+00:00", "Z"),
            "version": __version__,
            "uptime_seconds": round(monotonic() - self._began, 1),
            "services": services,
        }
        return JSONResponse(body, 200 if is_up else 503)

    async def _database(self) -> str:
        try:
            await within(_PATIENCE.total_seconds(), self._ask())
        except (Unavailable, TimeoutError):
            return "unavailable"
        return "ok"

    async def _ask(self) -> None:
        async with self._engine.pool.everywhere() as db:
            await health.ask(db)

    async def _embedder_state(self) -> str:
        now = self._engine.now()
        if self._embedder and now - self._embedder[1] < _PROBE_KEPT:
            return self._embedder[0]
        try:
            embedder = self._engine.embedders.configured(None)
            await embedder.embed(["Are you there?"], Purpose.QUERY, deadline=_PATIENCE)
            state = "ok"
        except Unavailable:
            state = "unavailable"
        self._embedder = (state, now)
        return state


def _verdict(services: dict[str, str]) -> str:
    return "healthy" if all(state == "ok" for state in services.values()) else "degraded"
