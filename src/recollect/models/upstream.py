"""A chat model behind an OpenAI-compatible endpoint."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import structlog

from recollect.errors import Unavailable
from recollect.models.chat import Answer
from recollect.models.faults import HIDDEN, SERVICE, TooSlow
from recollect.models.remote import Circuit, http_url
from recollect.settings import Upstream

# Streams are long and idle most of the time; the endpoint's own limits are the narrow place.
_CONNECTIONS = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
_CONNECT_SECONDS = 5.0
_LONGEST_REFUSAL = 256 * 1024

_log = structlog.get_logger(__name__)


class UpstreamChat:
    """Asks one endpoint, with one pool of connections."""

    def __init__(self, upstream: Upstream, *, idle_seconds: float = 120.0) -> None:
        """Connect to nothing yet; raise `Invalid` on a URL that cannot be one."""
        self._base = base_url(upstream.url)
        self._takes_tools = upstream.tools
        host = httpx2.URL(self._base).netloc
        self._secrets = [each for each in ((upstream.key or "").encode(), host) if each]
        self._client = httpx2.AsyncClient(
            headers={
                **({"Authorization": f"Bearer {upstream.key}"} if upstream.key else {}),
                # Compressed events would have to be unpacked and could be held back.
                "Accept-Encoding": "identity",
            },
            timeout=httpx2.Timeout(idle_seconds, connect=_CONNECT_SECONDS, pool=_CONNECT_SECONDS),
            limits=_CONNECTIONS,
            follow_redirects=False,  # a redirect could carry the key and the texts elsewhere
        )
        self._circuit = Circuit(service=SERVICE)

    @property
    def takes_tools(self) -> bool:
        """Whether a request may offer it tools."""
        return self._takes_tools

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[Answer]:
        """Send a request; leaving the block hangs up."""
        request = self._client.build_request(
            "POST",
            self._base + path,
            content=body,
            headers={"Content-Type": "application/json", **headers},
        )
        response = await self._send(request)
        chunks = _bytes(response)
        if not response.is_success:
            chunks = self._without_secrets(chunks)
        try:
            yield Answer(response.status_code, response.headers, chunks)
        finally:
            await response.aclose()

    async def get(self, path: str) -> Any:
        """What it answers to a plain question; raise `Unavailable` where that is no answer."""
        response = await self._send(self._client.build_request("GET", self._base + path))
        try:
            await response.aread()
            if not response.is_success:
                # The reason is for whoever runs `recollect doctor`; clients see none.
                raise Unavailable(SERVICE) from Exception(f"Status {response.status_code}.")
            return response.json()
        except (httpx2.HTTPError, ValueError):
            raise Unavailable(SERVICE) from None
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _without_secrets(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A refusal, which some word with the key or the address of the endpoint in it."""
        body = b""
        async for chunk in chunks:
            body += chunk
            if len(body) > _LONGEST_REFUSAL:
                break
        for secret in self._secrets:
            body = body.replace(secret, b"[redacted]")
        yield body

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Try once more only what surely never arrived: a turn must not be paid for twice."""
        self._circuit.admit()
        for is_last in (False, True):
            try:
                response = await self._client.send(request, stream=True)
            except httpx2.ConnectError as error:
                if is_last:
                    self._failed(error)
                    raise Unavailable(SERVICE) from None
            except httpx2.TimeoutException as error:
                self._failed(error)
                raise TooSlow from None
            except httpx2.HTTPError as error:
                self._failed(error)
                raise Unavailable(SERVICE) from None
            else:
                # Whatever it says, it is there: its refusals are between it and the client.
                self._circuit.succeeded()
                if response.status_code in HIDDEN or not 200 <= response.status_code < 500:
                    _log.warning("upstream.refused", status=response.status_code)
                return response
        raise AssertionError  # the last attempt returned or raised

    def _failed(self, error: Exception) -> None:
        self._circuit.failed()
        _log.warning("upstream.failed", why=type(error).__name__)


async def _bytes(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx2.TimeoutException:
        raise TooSlow from None
    except httpx2.HTTPError:
        raise Unavailable(SERVICE) from None


def base_url(url: str) -> str:
    """The base URL as operators write it, with or without a slash; raise `Invalid` on nonsense."""
    return str(http_url(url, "a chat endpoint")).rstrip("/").removesuffix("/chat/completions")
