"""The built-in embedder: a small ONNX model on the CPU, with no key and no network.

Finding its files is `weights.py`; what its cosines mean is `calibration.py`.
"""

import asyncio
import atexit
import itertools
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from queue import PriorityQueue
from threading import Thread
from typing import Any, TypeVar

import numpy as np
import structlog
from tokenizers import Tokenizer

from recollect.errors import Unavailable
from recollect.models import calibration
from recollect.models.embed import Identity, Purpose, Vector
from recollect.models.weights import MODEL, Weights, find_weights

_PREFIX = {
    Purpose.QUERY: "Represent this sentence for searching relevant passages: ",
    Purpose.PASSAGE: "",
}

# The longest sequence the model was trained on, with its opening and closing mark.
_WINDOW_TOKENS = 512

# The same question comes back: the next page of a recall, a retry, injection and then the model's
# own tool call in one turn. 1,024 vectors are 1.5 MB.
_REMEMBERED_QUERIES = 1_024

_log = structlog.get_logger(__name__)

T = TypeVar("T")


async def open_builtin(weights_dir: Path | None, cache: Path) -> "BuiltinEmbedder":
    """The embedder, ready to use; found, verified and loaded off the event loop."""
    return await asyncio.to_thread(lambda: BuiltinEmbedder(find_weights(weights_dir, cache)))


class BuiltinEmbedder:
    """Embeds in two threads of its own: one for queries, one for passages.

    Texts go through the model one by one. Its int8 arithmetic scales to the whole batch, so in a
    batch a text's vector depends on its neighbours (measured: cosine 0.995 to itself alone), and
    on one thread batches were no faster: 150 texts a second either way.
    """

    def __init__(self, weights: Weights) -> None:
        """Load the model; this takes a fraction of a second and blocks."""
        self._model = _Model(weights)
        # With a thread of their own, queries never wait for a passage, however many are queued.
        # Passages have a single one so that a backfill leaves the other cores to the server.
        self._lanes = {purpose: _Lane(f"embed-{purpose}") for purpose in Purpose}
        self._remembered: OrderedDict[str, Vector] = OrderedDict()

    @property
    def identity(self) -> Identity:
        """Which endpoint and model this is."""
        return Identity("builtin", MODEL)

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """One unit vector a text, in order; raise `Unavailable` when it fails or the time is up.

        What has not begun by then, or when the caller is cancelled, is dropped. Passages with a
        deadline overtake those without: somebody is waiting for them.
        """
        rank = _BACKGROUND if deadline is None else _AWAITED
        try:
            async with asyncio.timeout(None if deadline is None else deadline.total_seconds()):
                return await asyncio.gather(*(self._vector(text, purpose, rank) for text in texts))
        except TimeoutError:
            raise Unavailable("embedder") from None

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        return calibration.relevance(cosine)

    def may_answer(self, cosine: float) -> bool:
        """Whether the passage is relevant at all, as these scores are meant to be read."""
        return calibration.may_answer(cosine)

    def likeness(self, cosine: float) -> float:
        """How nearly two passages say the same, 0 to 1, from the cosine of their vectors."""
        return calibration.likeness(cosine)

    async def aclose(self) -> None:
        """Fail what is queued, finish what is running, end the threads."""
        for lane in self._lanes.values():
            lane.stop()
        for lane in self._lanes.values():
            await asyncio.to_thread(lane.join)

    async def _vector(self, text: str, purpose: Purpose, rank: int) -> Vector:
        if purpose is Purpose.PASSAGE:
            return await self._computed(text, purpose, rank)
        if text in self._remembered:
            self._remembered.move_to_end(text)
            return self._remembered[text]
        vector = self._remembered[text] = await self._computed(text, purpose, rank)
        if len(self._remembered) > _REMEMBERED_QUERIES:
            self._remembered.popitem(last=False)
        return vector

    async def _computed(self, text: str, purpose: Purpose, rank: int) -> Vector:
        """Window by window, so that something more urgent gets its turn in between."""
        lane, model = self._lanes[purpose], self._model
        first, windows = await lane.run(lambda: model.begin(_PREFIX[purpose], text), rank)
        if not windows:
            return first
        rest = await asyncio.gather(
            *(lane.run(lambda window=window: model.vector(window), rank) for window in windows)
        )
        return _unit(np.sum([first, *rest], axis=0))


def _runtime() -> Any:  # the package ships no types
    """What runs the network; told, before it is loaded, to report to nobody.

    By itself it makes up a number for the machine, notes in the user's home what it runs on, and
    sends that to its makers.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    return import_module("onnxruntime")


class _Model:
    """Tokenizer and network; safe to use from several threads."""

    def __init__(self, weights: Weights) -> None:
        onnxruntime = _runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # two were slower on texts of this size
        options.inter_op_num_threads = 1
        # Planned layouts keep a block for each length seen: 30 MB more, and no faster. The arena
        # alone grows by 33 MB for the longest window and then stays; without it malloc keeps more.
        options.enable_mem_pattern = False
        self._session: Any = onnxruntime.InferenceSession(
            str(weights.model), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(weights.tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # a `[SEP]` that somebody wrote is text
        self._open, self._close = self._mark("[CLS]"), self._mark("[SEP]")
        everyday = [self._state(self.windows("", text)[0]) for text in calibration.EVERYDAY]
        self._centre = calibration.SHARE_REMOVED * np.mean(everyday, axis=0)

    def windows(self, prefix: str, text: str) -> list[list[int]]:
        """The text's tokens in as few sequences as the model can take, each with the prefix.

        They are of even length, since each has the same say in the text's vector.
        """
        lead, tokens = self._tokens(prefix), self._tokens(text)
        room = _WINDOW_TOKENS - 2 - len(lead)
        size = math.ceil(len(tokens) / max(1, math.ceil(len(tokens) / room)))
        return [
            [self._open, *lead, *tokens[start : start + size], self._close]
            for start in range(0, max(1, len(tokens)), max(1, size))
        ]

    def begin(self, prefix: str, text: str) -> tuple[Vector, list[list[int]]]:
        """The first window's vector, and the windows that are left; mostly there are none."""
        first, *rest = self.windows(prefix, text)
        return self.vector(first), rest

    def vector(self, window: list[int]) -> Vector:
        """The window's meaning, without what all texts share."""
        return _unit(self._state(window) - self._centre)

    def _state(self, window: list[int]) -> Vector:
        """Of the opening mark, which this model is trained to make the meaning of the rest."""
        ids = np.array([window], dtype=np.int64)
        answer = self._session.run(
            None,
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            },
        )
        return _unit(answer[0][0, 0])

    def _tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _mark(self, name: str) -> int:
        found = self._tokenizer.token_to_id(name)
        assert found is not None  # the file is pinned, and has it
        return found


# Ranks of work, the lowest first.
_STOP, _AWAITED, _BACKGROUND = range(3)


@dataclass(order=True, slots=True)
class _Task:
    rank: int
    turn: int  # among equals, first come first served
    compute: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.compute())
        except Exception as error:  # noqa: BLE001  # the waiting side decides; the thread lives on
            _log.warning("embedder.failed", error=type(error).__name__)
            self.future.set_exception(Unavailable("embedder"))

    def refuse(self) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(Unavailable("embedder"))


class _Lane:
    """One thread that computes what it is given, the most urgent first."""

    def __init__(self, name: str) -> None:
        self._tasks: PriorityQueue[_Task] = PriorityQueue()
        self._turns = itertools.count()
        self._is_open = True
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        # A daemon thread that the end of the process finds inside the model aborts the process.
        atexit.register(self._end)

    async def run(self, compute: Callable[[], T], rank: int) -> T:
        """What `compute` returns; if this is cancelled before it began, it never runs."""
        if not self._is_open:
            raise Unavailable("embedder")
        return await asyncio.wrap_future(self._queued(compute, rank))

    def stop(self) -> None:
        """Refuse what is queued and what comes; like `run`, for the event loop's thread only."""
        self._is_open = False
        self._queued(lambda: None, _STOP)

    def join(self) -> None:
        """Wait for what is still running."""
        self._thread.join()
        atexit.unregister(self._end)

    def _end(self) -> None:
        self.stop()
        self._thread.join()

    def _queued(self, compute: Callable[[], T], rank: int) -> Future[T]:
        future: Future[T] = Future()
        self._tasks.put(_Task(rank, next(self._turns), compute, future))
        return future

    def _work(self) -> None:
        while (task := self._tasks.get()).rank != _STOP:
            task.run()
        while not self._tasks.empty():
            self._tasks.get().refuse()


def _unit(vector: Vector) -> Vector:
    """Of length one, and read-only because a remembered vector is handed out again."""
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    unit.setflags(write=False)
    return unit
