"""What somebody brings: an export of ours, or what another system wrote, ready to be taken in."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recollect.domain import Scope
from recollect.engine.core import Engine
from recollect.engine.imports import Attachments, Line, Refusal, Target
from recollect.trade.archive import reading
from recollect.trade.foreign import SOURCES
from recollect.trade.found import find
from recollect.trade.lines import decoded
from recollect.trade.making import Maker

OURS = "recollect"
NAMES = (OURS, *SOURCES)


@dataclass(frozen=True, slots=True)
class Read:
    """What is to be kept, its bytes, what is left out, and which share of it has been read."""

    lines: Iterable[Line | Refusal]
    attachments: Attachments
    left_out: Mapping[str, int]
    share: Callable[[], float] | None


Source = Callable[[Engine, Target], Read]


@contextmanager
def incoming(
    path: Path, source: str, scope: Scope, *, name: str | None = None, most_bytes: int | None = None
) -> Generator[Source]:
    """What a path holds, checked before anything is touched; raise `Unreadable` for what it is not.

    `name` is what it is called in messages, where the path is nobody's business. An archive that
    unpacks to more than `most_bytes` is refused.
    """
    if source == OURS:
        with reading(path, name=name, most_bytes=most_bytes) as export:
            share = (lambda: export.lines.tell() / export.size) if export.size else None
            yield lambda _, __: Read(decoded(export.lines), export, {}, share)
        return
    with find(path, name=name, most_bytes=most_bytes) as found:

        def read(engine: Engine, target: Target) -> Read:
            assert target.owner
            make = Maker(source, target.workspace_id, target.owner, engine.now(), scope=scope)
            return Read(SOURCES[source](found, make), _NoAttachments(), make.left_out, None)

        yield read


class _NoAttachments:
    """Other systems' files are not taken in."""

    def pieces(self, digest: str, size: int) -> None:
        """Nothing."""
        del digest, size
