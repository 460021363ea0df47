"""One cell of the table: an operation at a number of clients, ours and the floor in turns."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter

from bench.floor import Floor
from bench.seed import Tenant
from bench.texts import questions, statements
from bench.visitor import Visitor, visit

# One side's turn. Neighbours on the machine come and go in longer waves than this, so that they
# disturb both sides alike.
_ROUND_SECONDS = 1.0
_WARM_SECONDS = 0.5

# What one request took, in parts.
Act = Callable[[int, Tenant, str], Awaitable[Sequence[float]]]


@dataclass(slots=True)
class Timing:
    """What each request took, and how long the measuring lasted."""

    parts: list[Sequence[float]] = field(default_factory=list[Sequence[float]])
    seconds: float = 0.0

    def milliseconds(self, share: float) -> float:
        """The time within which this share of the requests was answered."""
        return _quantile([sum(each) for each in self.parts], share) * 1_000

    def part_milliseconds(self, part: int) -> float:
        """The median of one part."""
        return _quantile([each[part] for each in self.parts], 0.5) * 1_000

    @property
    def per_second(self) -> float:
        """Requests answered in a second."""
        return len(self.parts) / self.seconds


@dataclass(frozen=True, slots=True)
class Cell:
    """Ours and the floor for the same operation at the same number of clients."""

    operation: str
    clients: int
    ours: Timing
    floor: Timing
    # Answers of ours that the embedder was too late for: saved without a vector yet, or found by
    # words alone.
    late: int

    def ratio(self, share: float) -> float:
        """How many times the floor a request takes, of those that this share is faster than."""
        return self.ours.milliseconds(share) / self.floor.milliseconds(share)


class Side:
    """One way to do an operation, over texts of its own that the other side gets as well."""

    def __init__(self, act: Act, tenants: Sequence[Tenant], texts: Iterator[str]) -> None:
        self.timing = Timing()
        self._act = act
        self._tenants = cycle(tenants)
        self._texts = texts

    async def run(self, clients: int, seconds: float) -> None:
        """Let the clients ask, each as soon as it was answered, and note what it took."""
        began = perf_counter()
        await asyncio.gather(*(self._ask(client, began + seconds) for client in range(clients)))
        self.timing.seconds += perf_counter() - began

    def forget(self) -> None:
        """Begin to count here: what came before was for warming up."""
        self.timing = Timing()

    async def _ask(self, client: int, until: float) -> None:
        while perf_counter() < until:
            tenant, text = next(self._tenants), next(self._texts)
            self.timing.parts.append(await self._act(client, tenant, text))


class Ours:
    """The same through the front door."""

    def __init__(self, port: int) -> None:
        self.late = 0
        self._port = port
        self._visitors: dict[int, Visitor] = {}

    async def _visitor(self, client: int) -> Visitor:
        """The client's connection, made anew if it lay idle for too long."""
        if client not in self._visitors or self._visitors[client].is_closed:
            self._visitors[client] = await visit(self._port)
        return self._visitors[client]

    async def search(self, client: int, tenant: Tenant, text: str) -> Sequence[float]:
        """Seconds for a search that shows ten memories, however far they are."""
        visitor = await self._visitor(client)
        began = perf_counter()
        body = {"query": text, "limit": 10, "threshold": 0}
        status, answer = await visitor.ask("POST", "/v1/memory/search", key=tenant.key, body=body)
        took = perf_counter() - began
        found = json.loads(answer)
        assert status == 200, answer
        assert found["data"], answer
        self.late += found["degraded"]
        return (took,)

    async def save(self, client: int, tenant: Tenant, text: str) -> Sequence[float]:
        """Seconds for a save."""
        visitor = await self._visitor(client)
        began = perf_counter()
        status, answer = await visitor.ask(
            "POST", "/v1/memories", key=tenant.key, body={"content": text}
        )
        took = perf_counter() - began
        assert status == 201, answer
        self.late += not json.loads(answer)["vector_available"]
        return (took,)

    async def live(self, client: int, _: Tenant, __: str) -> Sequence[float]:
        """Seconds for the least the server can answer: the load generator's own share."""
        visitor = await self._visitor(client)
        began = perf_counter()
        await visitor.ask("GET", "/health/live")
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
    """Ours and the floor in turns of a second, over the same texts in the same order."""
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
    """What the load generator and the bare HTTP stack take by themselves."""
    side = Side(ours.live, [tenant], cycle([""]))
    await side.run(clients, seconds)
    return side.timing


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
