"""What is counted and timed, in a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Measures:
    """The metrics of one process. Labels are templates and states, never ids or texts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "recollect_request_seconds",
            "Time to answer a request.",
            ["door", "route", "method", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._jobs = Counter(
            "recollect_jobs_total",
            "Jobs that came to an end.",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self._queue = Gauge(
            "recollect_queue_jobs", "Jobs by state.", ["status"], registry=self.registry
        )
        self._oldest = Gauge(
            "recollect_queue_oldest_seconds",
            "How long the oldest waiting job has been due.",
            registry=self.registry,
        )
        self._pool = Gauge(
            "recollect_pool_connections",
            "Database connections by use.",
            ["use"],
            registry=self.registry,
        )

    def request(self, door: str, route: str, method: str, status: int, took: float) -> None:
        """Note one answered request."""
        self._requests.labels(door, route, method, str(status)).observe(took)

    def job(self, kind: str, outcome: str) -> None:
        """Note one finished, retried or buried job."""
        self._jobs.labels(kind, outcome).inc()

    def queue(self, counts: dict[str, int], oldest_seconds: float) -> None:
        """Show the queue as it is now."""
        for status in ("pending", "running", "buried"):
            self._queue.labels(status).set(counts.get(status, 0))
        self._oldest.set(oldest_seconds)

    def pool(self, statistics: dict[str, int]) -> None:
        """Show the connection pool as it is now."""
        self._pool.labels("open").set(statistics.get("pool_size", 0))
        self._pool.labels("free").set(statistics.get("pool_available", 0))
        self._pool.labels("awaited").set(statistics.get("requests_waiting", 0))

    def text(self) -> bytes:
        """Everything, in the exposition format of Prometheus."""
        return generate_latest(self.registry)
