"""The results of a run, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.cells import Cell, Timing

HEAD = (
    f"{'':<7}{'clients':>8} |{'p50':>8}{'p95':>8}{'p99':>8}{'/s':>7} |"
    f"{'embed':>8}{'sql':>8}{'p50':>8}{'p95':>8}{'p99':>8}{'/s':>7} |"
    f"{'p10':>7}{'p50':>7}{'/s':>7}\n"
    f"{'':<7}{'':>8} |{'ours, ms':>31} |{'floor, ms':>47} |{'ours : floor':>21}"
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The footprint of a filled instance: memory in MiB, disk in bytes, start in seconds."""

    server_mib: float
    server_after_mib: float
    postgres_mib: float
    starts: Sequence[float]
    database_bytes: int
    bytes_by_table: dict[str, int]
    memories: int


def row(cell: Cell) -> str:
    """Format one row of the table."""
    ours, floor = cell.ours, cell.floor
    return (
        f"{cell.operation:<7}{cell.clients:>8} |{_quantiles(ours)}{ours.per_second:>7.0f} |"
        f"{floor.part_milliseconds(0):>8.1f}{floor.part_milliseconds(1):>8.1f}"
        f"{_quantiles(floor)}{floor.per_second:>7.0f} |"
        f"{cell.ratio(0.1):>7.2f}{cell.ratio(0.5):>7.2f}{ours.per_second / floor.per_second:>7.2f}"
        + (f"  {cell.late} of {len(ours.parts)} without the embedder" if cell.late else "")
    )


def overhead(clients: int, timing: Timing) -> str:
    """Format the cost of the load generator itself."""
    return (
        f"GET /health/live at {clients} clients: p50 {timing.milliseconds(0.5):.2f} ms, "
        f"{timing.per_second:.0f}/s; the load generator's own share is at most that"
    )


def footprint(found: Footprint) -> str:
    """Format memory, start and disk."""
    each = found.database_bytes / found.memories
    tables = ", ".join(
        f"{name} {size / found.memories:,.0f}" for name, size in found.bytes_by_table.items()
    )
    starts = ", ".join(f"{seconds:.2f}" for seconds in found.starts)
    return (
        f"idle server {found.server_mib:.0f} MiB resident, {found.server_after_mib:.0f} after the "
        f"load; PostgreSQL {found.postgres_mib:.0f} MiB (shared pages counted once)\n"
        f"cold start to ready {starts} s\n"
        f"on disk {each:,.0f} bytes per memory ({tables})"
    )


def as_json(cell: Cell) -> dict[str, Any]:
    """Return the numbers of one cell."""
    return {
        "operation": cell.operation,
        "clients": cell.clients,
        "ours": _figures(cell.ours),
        "floor": _figures(cell.floor)
        | {
            "embed_ms": round(cell.floor.part_milliseconds(0), 3),
            "sql_ms": round(cell.floor.part_milliseconds(1), 3),
        },
        "late": cell.late,
        "ratio_p10": round(cell.ratio(0.1), 3),
        "ratio_p50": round(cell.ratio(0.5), 3),
    }


def _figures(timing: Timing) -> dict[str, Any]:
    return {
        "requests": len(timing.parts),
        "per_second": round(timing.per_second, 1),
        "p10_ms": round(timing.milliseconds(0.1), 3),
        "p50_ms": round(timing.milliseconds(0.5), 3),
        "p95_ms": round(timing.milliseconds(0.95), 3),
        "p99_ms": round(timing.milliseconds(0.99), 3),
    }


def _quantiles(timing: Timing) -> str:
    return "".join(f"{timing.milliseconds(share):>8.1f}" for share in (0.5, 0.95, 0.99))
