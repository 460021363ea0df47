"""An embedder behind an OpenAI-compatible endpoint: `POST {url}/embeddings`.

Whatever goes wrong there is `Unavailable` here, with no address, key or answer in its text.
"""

import asyncio
import base64
import binascii
import math
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from secrets import SystemRandom

import httpx2
import numpy as np
import structlog
from pydantic import BaseModel, ValidationError

from recollect.errors import Unavailable
from recollect.models.embed import Identity, Purpose, Refused, Vector
from recollect.models.remote import Circuit, http_url
from recollect.settings import Endpoint

# Text Embeddings Inference refuses more than 32 inputs unless told otherwise; others take more.
_BATCH_TEXTS = 32
_BATCH_CHARACTERS = 100_000

# Requests under way at once, for each purpose: a backfill never makes a question wait.
_PLACES = 4

_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.2
# Above this it is better to give up and let the caller's own queue come back later.
_LONGEST_PAUSE_SECONDS = 10.0

# Half of a text that is still too long below this has another fault than its length.
_SHORTEST_HALF = 200

_TIMEOUT = httpx2.Timeout(30, connect=5)

_dice = SystemRandom()
_log = structlog.get_logger(__name__)


class EndpointEmbedder:
    """Embeds through one endpoint, with one pool of connections.

    The purpose of a text changes nothing: these models are symmetric, and the few that want a
    prefix are best given it by the server that runs them.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Connect to nothing yet; raise `Invalid` on a URL that cannot be one."""
        self._url = embeddings_url(endpoint.url)
        self._model = endpoint.model
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {},
            timeout=_TIMEOUT,
            follow_redirects=False,  # a redirect could carry the key and the texts elsewhere
        )
        self._places = {purpose: asyncio.Semaphore(_PLACES) for purpose in Purpose}
        self._circuit = Circuit()

    @property
    def identity(self) -> Identity:
        """Which endpoint and model this is; a password in the URL is left out."""
        return identity_of(self._url, self._model)

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """One unit vector a text, in order; raise `Unavailable` when it fails or the time is up."""
        until = None if deadline is None else time.monotonic() + deadline.total_seconds()
        found: list[Vector] = []
        # One batch after the other: a long backfill holds a single place.
        for batch in _batches([text if text.strip() else _NOTHING for text in texts]):
            found += await self._vectors(batch, purpose, until)
        if len({vector.size for vector in found}) > 1:
            raise Unavailable("embedder")
        return found

    def relevance(self, cosine: float) -> float:
        """The cosine itself, held between 0 and 1."""
        return min(max(cosine, 0.0), 1.0)

    def may_answer(self, cosine: float) -> bool:  # noqa: ARG002 - the scale is the model's secret
        """Always: how near an unrelated passage is differs from model to model."""
        return True

    def likeness(self, cosine: float) -> float:
        """The cosine itself, held between 0 and 1."""
        return min(max(cosine, 0.0), 1.0)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _vectors(
        self, texts: list[str], purpose: Purpose, until: float | None
    ) -> list[Vector]:
        """Halves what the endpoint finds too long: first the batch, then the text itself."""
        try:
            return await self._persistently(texts, purpose, until)
        except _TooLong:
            middle = len(texts) // 2
        if middle:
            left = await self._vectors(texts[:middle], purpose, until)
            return left + await self._vectors(texts[middle:], purpose, until)
        middle = len(texts[0]) // 2
        if middle < _SHORTEST_HALF:
            raise Refused("embedder")
        halves = [texts[0][:middle], texts[0][middle:]]
        return [_unit(np.sum(await self._vectors(halves, purpose, until), axis=0))]

    async def _persistently(
        self, texts: list[str], purpose: Purpose, until: float | None
    ) -> list[Vector]:
        """Try again what may pass, as long as the time and the circuit allow."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._circuit.admit()
            try:
                return await self._once(texts, purpose, until)
            except _Failed as failure:
                _log.warning("embedder.failed", why=failure.why, attempt=attempt)
                pause = _pause(attempt, failure)
                is_over = attempt == _ATTEMPTS or not failure.is_passing
                if is_over or pause > _LONGEST_PAUSE_SECONDS or _is_past(until, pause):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returned or raised

    async def _once(self, texts: list[str], purpose: Purpose, until: float | None) -> list[Vector]:
        is_asked = False
        left = None if until is None else until - time.monotonic()
        try:
            async with asyncio.timeout(left), self._places[purpose]:
                is_asked = True
                vectors = _read(await self._post(texts), len(texts))
        except _Failed as failure:
            # One text it cannot digest must not cut off the rest.
            if not isinstance(failure, Refused):
                self._circuit.failed()
            raise
        except TimeoutError:
            if is_asked:  # waiting for a place of our own says nothing about the endpoint
                self._circuit.failed()
            raise Unavailable("embedder") from None
        self._circuit.succeeded()
        return vectors

    async def _post(self, texts: list[str]) -> bytes:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = await self._client.post(self._url, json=body)
        except httpx2.HTTPError as error:
            raise _Failed(type(error).__name__, is_passing=True) from None
        if response.is_success:
            return response.content
        if _says_too_long(response):
            self._circuit.succeeded()
            raise _TooLong
        kind = _RefusedText if response.status_code in {400, 422} else _Failed
        raise kind(
            f"status {response.status_code}",
            is_passing=response.status_code in {408, 429} or response.is_server_error,
            retry_after=_retry_after(response.headers.get("Retry-After")),
        )


# Endpoints refuse an empty text; this is the nearest thing to nothing that they take.
_NOTHING = "."


class _Failed(Unavailable):
    """One attempt came to nothing; `why` is safe to log, and not in the message."""

    def __init__(
        self,
        why: str,
        *,
        is_passing: bool = False,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__("embedder", retry_after=retry_after)
        self.why = why
        self.is_passing = is_passing


class _RefusedText(_Failed, Refused):
    """The endpoint answered, and it is about the input."""


class _TooLong(Exception):
    """The endpoint is well and finds the input too long."""


class _Item(BaseModel):
    index: int
    embedding: list[float] | str


class _Answer(BaseModel):
    data: list[_Item]


def identity_of(url: httpx2.URL, model: str) -> Identity:
    """An endpoint's identity; a password in the URL is left out."""
    return Identity(str(url.copy_with(userinfo=b"")), model)


def embeddings_url(base: str) -> httpx2.URL:
    """Where to post texts, from the base URL as operators write it; raise `Invalid` on nonsense."""
    url = http_url(base, "an embeddings endpoint")
    return url.copy_with(path=url.path.rstrip("/").removesuffix("/embeddings") + "/embeddings")


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


def _is_past(until: float | None, pause: float) -> bool:
    return until is not None and time.monotonic() + pause > until


def _pause(attempt: int, failure: _Failed) -> float:
    """Full jitter, so that those who failed together do not come back together."""
    chosen = _dice.uniform(0, _FIRST_PAUSE_SECONDS * 2**attempt)
    asked = failure.retry_after.total_seconds() if failure.retry_after else 0.0
    return asked + chosen


def _retry_after(header: str | None) -> timedelta | None:
    """The header in either of its forms, seconds or a date; None when absent or nonsense."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return timedelta(seconds=min(max(seconds, 0.0), 86_400)) if math.isfinite(seconds) else None


def _says_too_long(response: httpx2.Response) -> bool:
    """No two servers word it alike; these are OpenAI, vLLM, Ollama, TEI and llama.cpp."""
    if response.status_code == 413:
        return True
    text = response.text.lower() if response.status_code in {400, 422, 500} else ""
    return any(
        words in text
        for words in ("context length", "context size", "too long", "too large", "max_tokens")
    )


def _read(content: bytes, count: int) -> list[Vector]:
    """The vectors in the order asked for, each checked and made a unit."""
    try:
        items = sorted(_Answer.model_validate_json(content).data, key=lambda item: item.index)
        vectors = [_numbers(item.embedding) for item in items]
    except (ValidationError, binascii.Error, ValueError):
        raise _Failed("unreadable answer") from None
    if [item.index for item in items] != list(range(count)):
        raise _Failed("wrong count")
    if len({vector.size for vector in vectors}) != 1:
        raise _Failed("several dimensions")
    return [_unit(vector) for vector in vectors]


def _numbers(embedding: list[float] | str) -> Vector:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    with np.errstate(over="ignore"):  # too large becomes infinite, and is refused as such
        return np.array(embedding, dtype=np.float32)


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not math.isfinite(length) or length == 0.0:
        raise _RefusedText("no direction")
    return (vector / length).astype(np.float32)
