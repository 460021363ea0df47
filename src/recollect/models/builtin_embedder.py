"""The built-in embedder: a small ONNX model on the CPU, with no key and no network.

`weights.py` finds its files. `calibration.py` says what its cosines mean.
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

from recollect.core.errors import Unavailable
from recollect.models import calibration
from recollect.models.embedder import EmbedderIdentity, Purpose, Vector
from recollect.models.weights import MODEL, Weights, find_weights

_PREFIX = {
    Purpose.QUERY: "Represent this sentence for searching relevant passages: ",
    Purpose.PASSAGE: "",
}

# The longest sequence the model was trained on, including [CLS] and [SEP].
_WINDOW_TOKENS = 512

# The same query is often embedded again: for the next page of a recall, a retry, or a tool call
# after injection in one turn. 1,024 vectors take 1.5 MB.
_CACHED_QUERIES = 1_024

_log = structlog.get_logger(__name__)

T = TypeVar("T")


async def open_builtin(weights_dir: Path | None, cache: Path) -> "BuiltinEmbedder":
    """Find, verify and load the model outside the event loop; return the embedder."""
    return await asyncio.to_thread(lambda: BuiltinEmbedder(find_weights(weights_dir, cache)))


class BuiltinEmbedder:
    """Embeds in two threads of its own: one for queries, one for passages.

    Texts are embedded one by one. The model's int8 quantisation scales to the whole batch, so in a
    batch the vector of a text depends on the other texts (measured: cosine 0.995 to the text
    embedded alone). On one thread, batches were no faster: 150 texts a second either way.
    """

    def __init__(self, weights: Weights) -> None:
        """Load the model; this takes a fraction of a second and blocks."""
        self._model = _Model(weights)
        # Queries have their own thread, so they never wait for passages. Passages have only one
        # thread, so that a backfill leaves the other cores to the server.
        self._threads = {purpose: _EmbedThread(f"embed-{purpose}") for purpose in Purpose}
        self._query_cache: OrderedDict[str, Vector] = OrderedDict()

    @property
    def identity(self) -> EmbedderIdentity:
        """The kind, endpoint and model of this embedder."""
        return EmbedderIdentity("builtin", "builtin", MODEL)

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """Return one unit vector per text, in order; raise `Unavailable` on failure or timeout.

        Texts not yet started at the deadline or at cancellation are dropped. Passages with a
        deadline run before those without one, because a request waits for them.
        """
        priority = _BACKGROUND if deadline is None else _AWAITED
        try:
            async with asyncio.timeout(None if deadline is None else deadline.total_seconds()):
                return await asyncio.gather(
                    *(self._embed_one(text, purpose, priority) for text in texts)
                )
        except TimeoutError:
            raise Unavailable("embedder") from None

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        return calibration.relevance(cosine)

    def may_answer(self, cosine: float) -> bool:
        """Whether a passage with this cosine may be relevant to a query at all."""
        return calibration.may_answer(cosine)

    def likeness(self, cosine: float) -> float:
        """How similar two passages are in meaning, 0 to 1, from the cosine of their vectors."""
        return calibration.likeness(cosine)

    async def aclose(self) -> None:
        """Fail queued tasks, finish the running one, and end the threads."""
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            await asyncio.to_thread(thread.join)

    async def _embed_one(self, text: str, purpose: Purpose, priority: int) -> Vector:
        if purpose is Purpose.PASSAGE:
            return await self._compute(text, purpose, priority)
        if text in self._query_cache:
            self._query_cache.move_to_end(text)
            return self._query_cache[text]
        vector = self._query_cache[text] = await self._compute(text, purpose, priority)
        if len(self._query_cache) > _CACHED_QUERIES:
            self._query_cache.popitem(last=False)
        return vector

    async def _compute(self, text: str, purpose: Purpose, priority: int) -> Vector:
        """Embed window by window, so that a more urgent task can run in between."""
        thread, model = self._threads[purpose], self._model
        first, windows = await thread.run(
            lambda: model.embed_first_window(_PREFIX[purpose], text), priority
        )
        if not windows:
            return first
        rest = await asyncio.gather(
            *(
                thread.run(lambda window=window: model.vector(window), priority)
                for window in windows
            )
        )
        return _to_unit(np.sum([first, *rest], axis=0))


def _load_runtime() -> Any:  # the package ships no types
    """Import onnxruntime with its telemetry switched off.

    By default it creates a device id, writes hardware details to the user's home directory, and
    sends them to its vendor. The switch must be set before the import.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    return import_module("onnxruntime")


class _Model:
    """The tokenizer and the neural network. Thread-safe."""

    def __init__(self, weights: Weights) -> None:
        onnxruntime = _load_runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # two threads were slower on texts of this size
        options.inter_op_num_threads = 1
        # Memory patterns keep a block for each length seen: 30 MB more, and no faster. The arena
        # alone grows by 33 MB for the longest window and then stays constant. Without the arena,
        # malloc keeps more.
        options.enable_mem_pattern = False
        self._session: Any = onnxruntime.InferenceSession(
            str(weights.model), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(weights.tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # a `[SEP]` in the input is ordinary text
        self._cls, self._sep = self._special_token("[CLS]"), self._special_token("[SEP]")
        everyday = [self._cls_state(self.windows("", text)[0]) for text in calibration.EVERYDAY]
        self._centre = calibration.SHARE_REMOVED * np.mean(everyday, axis=0)

    def windows(self, prefix: str, text: str) -> list[list[int]]:
        """Split the tokens of a text into as few windows as possible, each with the prefix.

        The windows have even lengths, because each has the same weight in the text's vector.
        """
        lead, tokens = self._tokens(prefix), self._tokens(text)
        room = _WINDOW_TOKENS - 2 - len(lead)
        size = math.ceil(len(tokens) / max(1, math.ceil(len(tokens) / room)))
        return [
            [self._cls, *lead, *tokens[start : start + size], self._sep]
            for start in range(0, max(1, len(tokens)), max(1, size))
        ]

    def embed_first_window(self, prefix: str, text: str) -> tuple[Vector, list[list[int]]]:
        """Return the vector of the first window and the remaining windows, usually none."""
        first, *rest = self.windows(prefix, text)
        return self.vector(first), rest

    def vector(self, window: list[int]) -> Vector:
        """Return the unit vector of a window, with the component common to all texts removed."""
        return _to_unit(self._cls_state(window) - self._centre)

    def _cls_state(self, window: list[int]) -> Vector:
        """Return the state of [CLS], which this model is trained to use as the text's meaning."""
        ids = np.array([window], dtype=np.int64)
        answer = self._session.run(
            None,
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            },
        )
        return _to_unit(answer[0][0, 0])

    def _tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _special_token(self, name: str) -> int:
        found = self._tokenizer.token_to_id(name)
        assert found is not None  # the tokenizer file is pinned and contains it
        return found


# Priorities of tasks; the lowest number runs first.
_STOP, _AWAITED, _BACKGROUND = range(3)


@dataclass(order=True, slots=True)
class _Task:
    priority: int
    number: int  # among equal priorities, first in first out
    compute: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.compute())
        except Exception as error:  # noqa: BLE001  # the caller handles it; the thread must survive
            _log.warning("embedder.failed", error=type(error).__name__)
            self.future.set_exception(Unavailable("embedder"))

    def reject(self) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(Unavailable("embedder"))


class _EmbedThread:
    """A thread that runs queued tasks by priority."""

    def __init__(self, name: str) -> None:
        self._tasks: PriorityQueue[_Task] = PriorityQueue()
        self._numbers = itertools.count()
        self._is_open = True
        self._thread = Thread(target=self._run_tasks, name=name, daemon=True)
        self._thread.start()
        # If the process exits while a daemon thread is inside the model, the process aborts.
        atexit.register(self._shut_down)

    async def run(self, compute: Callable[[], T], priority: int) -> T:
        """Return the result of `compute`. If cancelled before it starts, it never runs."""
        if not self._is_open:
            raise Unavailable("embedder")
        return await asyncio.wrap_future(self._enqueue(compute, priority))

    def stop(self) -> None:
        """Reject queued and new tasks. Like `run`, call this only from the event loop's thread."""
        self._is_open = False
        self._enqueue(lambda: None, _STOP)

    def join(self) -> None:
        """Wait for the running task."""
        self._thread.join()
        atexit.unregister(self._shut_down)

    def _shut_down(self) -> None:
        self.stop()
        self._thread.join()

    def _enqueue(self, compute: Callable[[], T], priority: int) -> Future[T]:
        future: Future[T] = Future()
        self._tasks.put(_Task(priority, next(self._numbers), compute, future))
        return future

    def _run_tasks(self) -> None:
        while (task := self._tasks.get()).priority != _STOP:
            task.run()
        while not self._tasks.empty():
            self._tasks.get().reject()


def _to_unit(vector: Vector) -> Vector:
    """Scale a vector to length 1. It is read-only, because cached vectors are shared."""
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    unit.setflags(write=False)
    return unit
