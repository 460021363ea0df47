"""How an answer reaches the client: each interface implements a sink that writes its format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from recollect.chat.injection import InjectedMemories
from recollect.chat.tool_rounds import ToolCall
from recollect.core.domain import Message
from recollect.learning.queries.inbox import InboxItem

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """The start of an answer: the upstream's status and headers, and the injected memories."""

    status: int
    headers: Mapping[str, str]
    injected: InjectedMemories


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A completed call of a built-in tool, and its result."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of a stream; `raw` is set if these are exactly the upstream's bytes."""

    chunk: Object | None
    raw: bytes | None

    @property
    def text(self) -> str:
        """The text of the answer in this piece."""
        choices = cast("list[Object]", (self.chunk or {}).get("choices") or [])
        texts = [cast("Object", each.get("delta") or {}).get("content") for each in choices]
        return "".join(text for text in texts if isinstance(text, str))


class TurnSink(Protocol):
    """Writes an answer to the client.

    The first of the calls about the answer is exactly one of `refused`, `whole` and `begin`.
    """

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """The upstream refused the request; `body` is its response."""
        ...

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """A complete answer arrived; `raw` is set if it is exactly what the upstream sent."""
        ...

    async def begin(self, begun: StartedTurn) -> None:
        """A stream starts."""
        ...

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Pieces of the stream arrived together, and can be sent together."""
        ...

    async def tool_ran(self, finished: FinishedCall) -> None:
        """A built-in tool ran between two rounds."""
        ...

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The stream ends; `last` is a chunk without choices, `usage` the sum of all rounds."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the turn, if it was cancelled."""
        return False

    async def question_stored(self, message: Message, injected: InjectedMemories) -> None:
        """The user's message was stored in the thread. If there is a thread, this comes first."""

    async def answer_stored(self, message: Message, outcome: InboxItem | None) -> None:
        """The answer was stored in the thread, complete or as far as it came. This comes last.

        `outcome` is the inbox item of a turn whose outcome is distilled. The sink holds its claim
        and may distil it with `learn_now`.
        """
