"""The systems people leave, by name."""

from collections.abc import Callable, Iterator, Mapping

from recollect.engine.imports import Line, Refusal
from recollect.trade import chatgpt, claude, langgraph, markdown, mem0, table
from recollect.trade.found import Found
from recollect.trade.making import Maker

Read = Callable[[Found, Maker], Iterator[Line | Refusal]]

SOURCES: Mapping[str, Read] = {
    "mem0": mem0.read,
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "langgraph": langgraph.read,
    "markdown": markdown.read,
    "csv": table.read,
}
