"""The tools that models may call. To add one, write its module and add it to `TOOLS`."""

from collections.abc import Mapping, Sequence

from recollect.api.tools.memory_delete import MEMORY_DELETE
from recollect.api.tools.memory_recall import MEMORY_RECALL
from recollect.api.tools.memory_save import MEMORY_SAVE
from recollect.api.tools.tool import Tool

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        MEMORY_SAVE,
        MEMORY_RECALL,
        MEMORY_DELETE,
    )
}

# Which kinds of agent process get the tools. A channel talks to people and delegates memory work
# to a branch.
TOOLS_BY_PROCESS: Mapping[str, Sequence[str]] = {
    "branch": tuple(TOOLS),
    "cortex": tuple(TOOLS),
    "compaction": tuple(TOOLS),
    "channel": (),
}


def tools_for(process: str | None) -> list[Tool]:
    """Return the tools for a kind of process, or all tools for None."""
    names = TOOLS if process is None else TOOLS_BY_PROCESS[process]
    return [TOOLS[name] for name in names]
