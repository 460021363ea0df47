"""The importers, by the name of the system they read."""

from collections.abc import Callable, Iterator, Mapping

from recollect.portability.importers import chatgpt, claude, csv, langgraph, markdown, mem0
from recollect.portability.importers.files import SourceFiles
from recollect.portability.importers.record_maker import RecordMaker
from recollect.portability.importing import ImportLine, Refusal

Read = Callable[[SourceFiles, RecordMaker], Iterator[ImportLine | Refusal]]

SOURCES: Mapping[str, Read] = {
    "mem0": mem0.read,
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "langgraph": langgraph.read,
    "markdown": markdown.read,
    "csv": csv.read,
}
