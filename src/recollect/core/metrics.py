"""Prometheus metrics, in a separate registry per server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# The purposes of background calls of a chat model, and their outcomes.
PURPOSES = ("distil", "summary", "synthesise")
OUTCOMES = (
    "answered",
    "refused",
    "misconfigured",
    "unreadable",
    "slow",
    "unavailable",
    "postponed",
)

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The metrics of one process. Labels are route templates and states, never ids or texts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "recollect_request_seconds",
            "Seconds to answer a request.",
            ["interface", "route", "method", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._jobs = Counter(
            "recollect_jobs_total",
            "Jobs that finished, by outcome.",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self._queue = Gauge(
            "recollect_queue_jobs", "Jobs by state.", ["status"], registry=self.registry
        )
        self._oldest = Gauge(
            "recollect_queue_oldest_seconds",
            "Seconds since the oldest queued job became due.",
            registry=self.registry,
        )
        self._pool = Gauge(
            "recollect_pool_connections",
            "Database connections by use.",
            ["use"],
            registry=self.registry,
        )
        self._connections = Gauge(
            "recollect_connections",
            "Client connections by state. Those waiting for a request also count as open.",
            ["state"],
            registry=self.registry,
        )
        self._refusals = Counter(
            "recollect_refused_connections_total",
            "Connections refused or closed because of a limit.",
            ["reason"],
            registry=self.registry,
        )

        self._calls = Counter(
            "recollect_background_calls",
            "Background calls of a chat model, by purpose and outcome.",
            ["purpose", "outcome"],
            registry=self.registry,
        )
        for purpose in PURPOSES:
            for outcome in OUTCOMES:  # shown as 0, so that the first failure is an increase
                self._calls.labels(purpose, outcome)
        self._pending = Gauge(
            "recollect_learning_pending",
            "Messages in the inbox, waiting to be learnt from.",
            registry=self.registry,
        )
        self._pending_oldest = Gauge(
            "recollect_learning_oldest_seconds",
            "Seconds since the oldest message in the inbox arrived.",
            registry=self.registry,
        )
        self._by_rules = Gauge(
            "recollect_learning_by_rules",
            "Messages of the last hour that were learnt by rules because the chat model failed.",
            registry=self.registry,
        )

    def record_request(
        self, interface: str, route: str, method: str, status: int, took_seconds: float
    ) -> None:
        """Record one answered request."""
        self._requests.labels(interface, route, method, str(status)).observe(took_seconds)

    def count_job(self, kind: str, outcome: str) -> None:
        """Count one finished, retried or failed job."""
        self._jobs.labels(kind, outcome).inc()

    def set_queue(self, counts: dict[str, int], oldest_seconds: float) -> None:
        """Set the current state of the job queue."""
        for status in ("pending", "running", "failed"):
            self._queue.labels(status).set(counts.get(status, 0))
        self._oldest.set(oldest_seconds)

    def count_background_call(self, purpose: str, outcome: str) -> None:
        """Count one background call of a chat model."""
        self._calls.labels(purpose, outcome).inc()

    def set_learning(self, pending: int, oldest_seconds: float, by_rules: int) -> None:
        """Set how far learning is behind."""
        self._pending.set(pending)
        self._pending_oldest.set(oldest_seconds)
        self._by_rules.set(by_rules)

    def set_pool(self, statistics: dict[str, int]) -> None:
        """Set the current state of the connection pool."""
        self._pool.labels("open").set(statistics.get("pool_size", 0))
        self._pool.labels("free").set(statistics.get("pool_available", 0))
        self._pool.labels("awaited").set(statistics.get("requests_waiting", 0))

    def set_connections(self, counts: dict[str, int]) -> None:
        """Set the current number of client connections."""
        for state, count in counts.items():
            self._connections.labels(state).set(count)

    def count_refusal(self, reason: str) -> None:
        """Count one refused connection."""
        self._refusals.labels(reason).inc()

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
