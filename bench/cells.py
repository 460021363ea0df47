"""One cell of the table: an operation at a number of clients, ours and the floor alternating."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter

from bench.floor import Floor
from bench.http_client import HttpConnection, open_connection
from bench.seed import Tenant
from bench.texts import questions, statements

# How long one side runs at a time. Other load on the machine changes more slowly than this, so it
# affects both sides alike.
_ROUND_SECONDS = 1.0
_WARM_SECONDS = 0.5

# The durations of the parts of one request.
Act = Callable[[int, Tenant, str], Awaitable[Sequence[float]]]


@dataclass(slots=True)
class Timing:
    """The duration of each request, and of the whole measurement."""

    parts: list[Sequence[float]] = field(default_factory=list[Sequence[float]])
    seconds: float = 0.0

    def milliseconds(self, share: float) -> float:
        """Return the time within which this share of the requests was answered."""
        return _quantile([sum(each) for each in self.parts], share) * 1_000

    def part_milliseconds(self, part: int) -> float:
        """Return the median of one part."""
        return _quantile([each[part] for each in self.parts], 0.5) * 1_000

    @property
    def per_second(self) -> float:
        """Return the number of requests answered per second."""
        return len(self.parts) / self.seconds


@dataclass(frozen=True, slots=True)
class Cell:
    """Ours and the floor for the same operation at the same number of clients."""

    operation: str
    clients: int
    ours: Timing
    floor: Timing
    # Our responses for which the embedder missed its deadline: saves without a vector, or searches
    # by keywords only.
    late: int

    def ratio(self, share: float) -> float:
        """Return our time divided by the floor's time, at this quantile."""
        return self.ours.milliseconds(share) / self.floor.milliseconds(share)


class Side:
    """One way to do an operation. Both sides use the same texts."""

    def __init__(self, act: Act, tenants: Sequence[Tenant], texts: Iterator[str]) -> None:
        self.timing = Timing()
        self._act = act
        self._tenants = cycle(tenants)
        self._texts = texts

    async def run(self, clients: int, seconds: float) -> None:
        """Run the clients, each sending its next request after a response, and record the times."""
        began = perf_counter()
        await asyncio.gather(*(self._send(client, began + seconds) for client in range(clients)))
        self.timing.seconds += perf_counter() - began

    def forget(self) -> None:
        """Discard the measurements of the warm-up."""
        self.timing = Timing()

    async def _send(self, client: int, until: float) -> None:
        while perf_counter() < until:
            tenant, text = next(self._tenants), next(self._texts)
            self.timing.parts.append(await self._act(client, tenant, text))


class Ours:
    """Our side: the operations over HTTP."""

    def __init__(self, port: int) -> None:
        self.late = 0
        self._port = port
        self._connections: dict[int, HttpConnection] = {}

    async def _connection(self, client: int) -> HttpConnection:
        """Return the client's connection, reopened if it was idle for too long."""
        if client not in self._connections or self._connections[client].is_closed:
            self._connections[client] = await open_connection(self._port)
        return self._connections[client]

    async def search(self, client: int, tenant: Tenant, text: str) -> Sequence[float]:
        """Return the seconds of a search that always returns ten memories."""
        connection = await self._connection(client)
        began = perf_counter()
        body = {"query": text, "limit": 10, "threshold": 0}
        status, answer = await connection.send(
            "POST", "/v1/memory/search", key=tenant.key, body=body
        )
        took = perf_counter() - began
        found = json.loads(answer)
        assert status == 200, answer
        assert found["data"], answer
        self.late += found["degraded"]
        return (took,)

    async def save(self, client: int, tenant: Tenant, text: str) -> Sequence[float]:
        """Return the seconds of a save."""
        connection = await self._connection(client)
        began = perf_counter()
        status, answer = await connection.send(
            "POST", "/v1/memories", key=tenant.key, body={"content": text}
        )
        took = perf_counter() - began
        assert status == 201, answer
        self.late += not json.loads(answer)["vector_available"]
        return (took,)

    async def live(self, client: int, _: Tenant, __: str) -> Sequence[float]:
        """Return the seconds of the cheapest request, to measure the load generator itself."""
        connection = await self._connection(client)
        began = perf_counter()
        await connection.send("GET", "/health/live")
        return (perf_counter() - began,)


async def measure(
    operation: str,
    clients: int,
    seconds: float,
    *,
    ours: Ours,
    floor: Floor,
    tenants: Sequence[Tenant],
) -> Cell:
    """Alternate ours and the floor every second, with the same texts in the same order."""
    make = questions if operation == "search" else statements
    seed = f"{operation} of {clients}"
    mine = Side(getattr(ours, operation), tenants, make(seed))
    bare = Side(getattr(floor, operation), tenants, make(seed))
    for side in (bare, mine):
        await side.run(clients, _WARM_SECONDS)
        side.forget()
    ours.late = 0
    while mine.timing.seconds < seconds:
        await bare.run(clients, min(_ROUND_SECONDS, seconds))
        await mine.run(clients, min(_ROUND_SECONDS, seconds))
    return Cell(operation, clients, mine.timing, bare.timing, ours.late)


async def overhead(clients: int, seconds: float, *, ours: Ours, tenant: Tenant) -> Timing:
    """Measure the load generator and the bare HTTP stack."""
    side = Side(ours.live, [tenant], cycle([""]))
    await side.run(clients, seconds)
    return side.timing


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
