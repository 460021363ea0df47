"""Open the source of an import: a Recollect export, or a file that another system wrote."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recollect.core.domain import Scope
from recollect.engine import Engine
from recollect.portability.archive import reading
from recollect.portability.importers.files import open_files
from recollect.portability.importers.record_maker import RecordMaker
from recollect.portability.importers.registry import SOURCES
from recollect.portability.importing import Attachments, ImportLine, ImportTarget, Refusal
from recollect.portability.json_lines import decode_lines

OURS = "recollect"
NAMES = (OURS, *SOURCES)


@dataclass(frozen=True, slots=True)
class ReadSource:
    """The records to import, their bytes, the counts of what is left out, and the share read."""

    lines: Iterable[ImportLine | Refusal]
    attachments: Attachments
    left_out: Mapping[str, int]
    share: Callable[[], float] | None


Source = Callable[[Engine, ImportTarget], ReadSource]


@contextmanager
def open_source(
    path: Path, source: str, scope: Scope, *, name: str | None = None, max_bytes: int | None = None
) -> Generator[Source]:
    """Open a path as a source; raise `UnreadableFile` before anything is imported.

    `name` replaces the path in messages, for callers who must not see it. An archive that unpacks
    to more than `max_bytes` is rejected.
    """
    if source == OURS:
        with reading(path, name=name, max_bytes=max_bytes) as export:
            share = (lambda: export.lines.tell() / export.size) if export.size else None
            yield lambda _, __: ReadSource(decode_lines(export.lines), export, {}, share)
        return
    with open_files(path, name=name, max_bytes=max_bytes) as found:

        def read(engine: Engine, target: ImportTarget) -> ReadSource:
            assert target.owner
            make = RecordMaker(source, target.workspace_id, target.owner, engine.now(), scope=scope)
            return ReadSource(SOURCES[source](found, make), _NoAttachments(), make.left_out, None)

        yield read


class _NoAttachments:
    """Files of other systems are not imported."""

    def pieces(self, digest: str, size: int) -> None:
        """Return None: there are no bytes."""
        del digest, size
