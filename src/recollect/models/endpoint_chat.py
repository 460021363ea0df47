"""A chat model behind an OpenAI-compatible endpoint."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import structlog

from recollect.core.errors import Unavailable
from recollect.core.settings import Upstream
from recollect.models.chat_errors import HIDDEN, SERVICE, TooSlow
from recollect.models.chat_model import ModelAnswer
from recollect.models.endpoints import CircuitBreaker, http_url

# Streams are long and mostly idle. The endpoint's own limits are the bottleneck.
_CONNECTIONS = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
_CONNECT_SECONDS = 5.0
_MAX_REFUSAL_BYTES = 256 * 1024

_log = structlog.get_logger(__name__)


class EndpointChat:
    """Sends requests to one endpoint over one connection pool."""

    def __init__(self, upstream: Upstream, *, idle_seconds: float = 120.0) -> None:
        """Do not connect yet; raise `Invalid` if the URL is invalid."""
        self._base = base_url(upstream.url)
        self._takes_tools = upstream.tools
        host = httpx2.URL(self._base).netloc
        self._secrets = [each for each in ((upstream.key or "").encode(), host) if each]
        self._client = httpx2.AsyncClient(
            headers={
                **({"Authorization": f"Bearer {upstream.key}"} if upstream.key else {}),
                # Compressed events would need unpacking and could be buffered.
                "Accept-Encoding": "identity",
            },
            timeout=httpx2.Timeout(idle_seconds, connect=_CONNECT_SECONDS, pool=_CONNECT_SECONDS),
            limits=_CONNECTIONS,
            follow_redirects=False,  # a redirect could send the key and the texts elsewhere
        )
        self._circuit = CircuitBreaker(service=SERVICE)

    @property
    def takes_tools(self) -> bool:
        """Whether a request may offer tools to the model."""
        return self._takes_tools

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[ModelAnswer]:
        """Send a request; leaving the block closes the connection."""
        request = self._client.build_request(
            "POST",
            self._base + path,
            content=body,
            headers={"Content-Type": "application/json", **headers},
        )
        response = await self._send(request)
        chunks = _read_chunks(response)
        if not response.is_success:
            chunks = self._redact(chunks)
        try:
            yield ModelAnswer(response.status_code, response.headers, chunks)
        finally:
            await response.aclose()

    async def get(self, path: str) -> Any:
        """Return the JSON of a GET request; raise `Unavailable` on failure or invalid JSON."""
        response = await self._send(self._client.build_request("GET", self._base + path))
        try:
            await response.aread()
            if not response.is_success:
                # `recollect doctor` shows the cause to the operator; clients do not see it.
                raise Unavailable(SERVICE) from Exception(f"Status {response.status_code}.")
            return response.json()
        except (httpx2.HTTPError, ValueError):
            raise Unavailable(SERVICE) from None
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _redact(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Remove the key and the address from a refusal. Some endpoints repeat them there."""
        body = b""
        async for chunk in chunks:
            body += chunk
            if len(body) > _MAX_REFUSAL_BYTES:
                break
        for secret in self._secrets:
            body = body.replace(secret, b"[redacted]")
        yield body

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Retry once, and only if the connection failed: a turn must not be paid for twice."""
        self._circuit.admit()
        for is_last in (False, True):
            try:
                response = await self._client.send(request, stream=True)
            except httpx2.ConnectError as error:
                if is_last:
                    self._note_failure(error)
                    raise Unavailable(SERVICE) from None
            except httpx2.TimeoutException as error:
                self._note_failure(error)
                raise TooSlow from None
            except httpx2.HTTPError as error:
                self._note_failure(error)
                raise Unavailable(SERVICE) from None
            else:
                # Any response means that the endpoint works. Refusals go to the client.
                self._circuit.succeeded()
                if response.status_code in HIDDEN or not 200 <= response.status_code < 500:
                    _log.warning("upstream.refused", status=response.status_code)
                return response
        raise AssertionError  # the last attempt returned or raised

    def _note_failure(self, error: Exception) -> None:
        self._circuit.failed()
        _log.warning("upstream.failed", why=type(error).__name__)


async def _read_chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx2.TimeoutException:
        raise TooSlow from None
    except httpx2.HTTPError:
        raise Unavailable(SERVICE) from None


def base_url(url: str) -> str:
    """Normalise the base URL of a chat endpoint; raise `Invalid` if it is not an HTTP URL."""
    return str(http_url(url, "a chat endpoint")).rstrip("/").removesuffix("/chat/completions")
