"""The usage report of a workspace: model calls and recall times by day."""

from dataclasses import dataclass
from datetime import timedelta

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.usage import queries
from recollect.usage.queries import RecallTimes, UsageLine


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Model calls and recall times by day."""

    lines: list[UsageLine]
    recalls: list[RecallTimes]


async def usage_report(engine: Engine, caller: Caller, *, days: int) -> UsageReport:
    """Return the workspace's usage of the last `days` days, including today."""
    caller.require(Right.READ)
    today = engine.now().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    async with engine.reading(caller) as db:
        lines = await queries.workspace_usage(db, caller.workspace_id, since)
        recalls = await queries.recall_times(db, caller.workspace_id, since)
    return UsageReport(lines, recalls)
