"""Authentication of browsers by session cookie, with protection against cross-site requests.

A browser sends its cookie with every request, even if another site's page caused the request. So a
write is accepted only if its headers name our own page as the origin, or name no origin, as clients
other than browsers do.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from recollect.core.domain import Caller
from recollect.core.errors import Denied
from recollect.tenancy.sign_in import SignIns

_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_OWN_SITE = {"same-origin", "none"}


@dataclass(frozen=True, slots=True)
class Cookies:
    """Authenticates browsers by their cookie and builds `Set-Cookie` headers."""

    sign_ins: SignIns
    # Whether browsers send the cookie only over HTTPS. The HTTP cookie is then not accepted.
    is_https: bool

    @property
    def name(self) -> str:
        """The cookie's name. Browsers restrict a `__Host-` cookie to HTTPS and to this host."""
        return "__Host-session" if self.is_https else "session"

    def token(self, headers: Headers) -> str | None:
        """The session token in the request's cookie."""
        return cookie_parser(headers.get("cookie", "")).get(self.name)

    async def recognise(self, method: str, headers: Headers) -> Caller:
        """The caller. Raises `Unauthenticated`, or `Denied` for a cross-site request."""
        caller = await self.sign_ins.recognise(self.token(headers))
        check_same_origin(method, headers)
        return caller

    def set_cookie(self, token: str) -> str:
        """The header that sets the browser's cookie, for as long as a session can last."""
        seconds = int(self.sign_ins.life.total.total_seconds())
        return f"{self.name}={token}; Max-Age={seconds}; {self._attributes}"

    @property
    def clear_cookie(self) -> str:
        """The header that deletes the browser's cookie."""
        return f"{self.name}=; Max-Age=0; {self._attributes}"

    @property
    def _attributes(self) -> str:
        return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if self.is_https else "")


def check_same_origin(method: str, headers: Headers) -> None:
    """Raise `Denied` for a write that a page of another origin made a browser send."""
    if method in _SAFE_METHODS:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _OWN_SITE:
        raise Denied("A page of another site sent this request.")
    if origin is not None and not _is_same_origin(origin, headers):
        raise Denied("A page of another site sent this request.")


def _is_same_origin(origin: str, headers: Headers) -> bool:
    """Whether the page comes from where the request goes to; behind a proxy the scheme differs."""
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False
