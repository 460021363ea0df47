"""An embedder behind an HTTP endpoint: batches, retries and limits, whatever API it speaks.

Every failure becomes `Unavailable`, without the address, key or response in its text.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from secrets import SystemRandom
from typing import Any

import httpx2
import numpy as np
import structlog

from recollect.core.errors import Unavailable
from recollect.core.settings import EmbeddingEndpoint
from recollect.models.backoff import retry_after
from recollect.models.embedder import EmbedderIdentity, Purpose, TextRefused, Vector
from recollect.models.endpoints import CircuitBreaker

# Text Embeddings Inference refuses more than 32 inputs by default; other servers accept more.
_BATCH_TEXTS = 32
_BATCH_CHARACTERS = 100_000

# Concurrent requests per purpose, so that a backfill never delays a query.
_MAX_CONCURRENT = 4

_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.2
# Above this it is better to fail and let the caller's job queue retry later.
_MAX_PAUSE_SECONDS = 10.0

# If a text is refused as too long even below this, its length is not the problem.
_MIN_HALF_CHARACTERS = 200

_TIMEOUT = httpx2.Timeout(30, connect=5)

_random = SystemRandom()
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddingApi:
    """The wire format of one kind of embeddings endpoint."""

    kind: str
    # The URL to post to, from the configured one or from itself. Raises `Invalid`.
    url: Callable[[str], httpx2.URL]
    # The headers that carry the key.
    headers: Callable[[str], Mapping[str, str]]
    # The request for these texts, from the model and the purpose.
    body: Callable[[str, Sequence[str], Purpose], Mapping[str, Any]]
    # The vectors of a response, in the order of the request. Raises `ValueError` if unreadable.
    vectors: Callable[[bytes], list[Vector]]


class EndpointEmbedder:
    """Embeds through one endpoint over one connection pool."""

    def __init__(self, endpoint: EmbeddingEndpoint, api: EmbeddingApi) -> None:
        """Do not connect yet; raise `Invalid` if the URL is invalid."""
        self._api = api
        self._url = api.url(endpoint.url)
        self._model = endpoint.model
        self._identity = identity_of(endpoint, api)
        self._client = httpx2.AsyncClient(
            headers=api.headers(endpoint.key) if endpoint.key else {},
            timeout=_TIMEOUT,
            follow_redirects=False,  # a redirect could send the key and the texts elsewhere
        )
        self._slots = {purpose: asyncio.Semaphore(_MAX_CONCURRENT) for purpose in Purpose}
        self._circuit = CircuitBreaker()

    @property
    def identity(self) -> EmbedderIdentity:
        """The kind, endpoint and model; a password in the URL is left out."""
        return self._identity

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """Return one unit vector per text, in order; raise `Unavailable` on failure or timeout."""
        until = None if deadline is None else time.monotonic() + deadline.total_seconds()
        found: list[Vector] = []
        # Batches run one after another, so that a long backfill uses a single slot.
        for batch in _batches([text if text.strip() else _EMPTY_TEXT for text in texts]):
            found += await self._embed_batch(batch, purpose, until)
        if len({vector.size for vector in found}) > 1:
            raise Unavailable("embedder")
        return found

    def relevance(self, cosine: float) -> float:
        """The cosine itself, limited to 0 to 1."""
        return min(max(cosine, 0.0), 1.0)

    def may_answer(self, cosine: float) -> bool:  # noqa: ARG002 - the model's scale is unknown
        """Always True: the cosine of an unrelated passage differs from model to model."""
        return True

    def likeness(self, cosine: float) -> float:
        """The cosine itself, limited to 0 to 1."""
        return min(max(cosine, 0.0), 1.0)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _embed_batch(
        self, texts: list[str], purpose: Purpose, until: float | None
    ) -> list[Vector]:
        """Embed a batch. If the endpoint finds it too long, halve the batch, then the text."""
        try:
            return await self._embed_with_retries(texts, purpose, until)
        except _TooLong:
            middle = len(texts) // 2
        if middle:
            left = await self._embed_batch(texts[:middle], purpose, until)
            return left + await self._embed_batch(texts[middle:], purpose, until)
        middle = len(texts[0]) // 2
        if middle < _MIN_HALF_CHARACTERS:
            raise TextRefused("embedder")
        halves = [texts[0][:middle], texts[0][middle:]]
        return [_to_unit(np.sum(await self._embed_batch(halves, purpose, until), axis=0))]

    async def _embed_with_retries(
        self, texts: list[str], purpose: Purpose, until: float | None
    ) -> list[Vector]:
        """Retry temporary failures while the deadline and the circuit breaker allow it."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._circuit.admit()
            try:
                return await self._embed_once(texts, purpose, until)
            except _Failed as failure:
                _log.warning("embedder.failed", why=failure.reason, attempt=attempt)
                pause = _pause_seconds(attempt, failure)
                is_over = attempt == _ATTEMPTS or not failure.is_temporary
                if is_over or pause > _MAX_PAUSE_SECONDS or _is_past_deadline(until, pause):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returned or raised

    async def _embed_once(
        self, texts: list[str], purpose: Purpose, until: float | None
    ) -> list[Vector]:
        is_sent = False
        left = None if until is None else until - time.monotonic()
        try:
            async with asyncio.timeout(left), self._slots[purpose]:
                is_sent = True
                vectors = self._read(await self._post(texts, purpose), len(texts))
        except _Failed as failure:
            # A refused text must not open the circuit for the others.
            if not isinstance(failure, TextRefused):
                self._circuit.failed()
            raise
        except TimeoutError:
            if is_sent:  # a timeout while waiting for a slot is not the endpoint's fault
                self._circuit.failed()
            raise Unavailable("embedder") from None
        self._circuit.succeeded()
        return vectors

    async def _post(self, texts: list[str], purpose: Purpose) -> bytes:
        body = self._api.body(self._model, texts, purpose)
        try:
            response = await self._client.post(self._url, json=body)
        except httpx2.HTTPError as error:
            raise _Failed(type(error).__name__, is_temporary=True) from None
        if response.is_success:
            return response.content
        if _is_too_long(response):
            self._circuit.succeeded()
            raise _TooLong
        kind = _RefusedText if response.status_code in {400, 422} else _Failed
        raise kind(
            f"status {response.status_code}",
            is_temporary=response.status_code in {408, 429} or response.is_server_error,
            retry_after=retry_after(response.headers.get("Retry-After")),
        )

    def _read(self, content: bytes, count: int) -> list[Vector]:
        """Return the vectors in the order of the request, checked and scaled to unit length."""
        try:
            vectors = self._api.vectors(content)
        except ValueError:
            raise _Failed("unreadable answer") from None
        if len(vectors) != count:
            raise _Failed("wrong count")
        if len({vector.size for vector in vectors}) != 1:
            raise _Failed("different dimensions")
        return [_to_unit(vector) for vector in vectors]


# Endpoints refuse an empty text. This replaces it.
_EMPTY_TEXT = "."


class _Failed(Unavailable):
    """One attempt failed; `reason` is safe to log and is not in the message."""

    def __init__(
        self,
        reason: str,
        *,
        is_temporary: bool = False,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__("embedder", retry_after=retry_after)
        self.reason = reason
        self.is_temporary = is_temporary


class _RefusedText(_Failed, TextRefused):
    """The endpoint refused the input."""


class _TooLong(Exception):
    """The endpoint works and finds the input too long."""


def identity_of(endpoint: EmbeddingEndpoint, api: EmbeddingApi) -> EmbedderIdentity:
    """Return the identity of an endpoint; a password in the URL is left out."""
    url = str(api.url(endpoint.url).copy_with(userinfo=b""))
    return EmbedderIdentity(api.kind, url, endpoint.model)


def _batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        is_full = len(batch) == _BATCH_TEXTS or characters + len(text) > _BATCH_CHARACTERS
        if batch and is_full:
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _is_past_deadline(until: float | None, pause: float) -> bool:
    return until is not None and time.monotonic() + pause > until


def _pause_seconds(attempt: int, failure: _Failed) -> float:
    """Return the pause with full jitter, so that failed requests do not retry together."""
    jitter = _random.uniform(0, _FIRST_PAUSE_SECONDS * 2**attempt)
    requested = failure.retry_after.total_seconds() if failure.retry_after else 0.0
    return requested + jitter


def _is_too_long(response: httpx2.Response) -> bool:
    """Recognise the differing messages of OpenAI, vLLM, Ollama, TEI and llama.cpp."""
    if response.status_code == 413:
        return True
    text = response.text.lower() if response.status_code in {400, 422, 500} else ""
    return any(
        words in text
        for words in ("context length", "context size", "too long", "too large", "max_tokens")
    )


def _to_unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not math.isfinite(length) or length == 0.0:
        raise _RefusedText("zero or non-finite vector")
    return (vector / length).astype(np.float32)
