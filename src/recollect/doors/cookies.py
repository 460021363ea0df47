"""How a browser is known: the cookie it was given at sign-in, and that it asks for itself.

A browser sends its cookie along whoever's page made it ask. A write is therefore believed only if
the browser says that our own page asked, or says nothing, as programs do that are no browsers.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from recollect.domain import Caller
from recollect.engine.signin import SignIns
from recollect.errors import Denied

_READING = {"GET", "HEAD", "OPTIONS"}
_OWN = {"same-origin", "none"}


@dataclass(frozen=True, slots=True)
class Cookies:
    """Recognises browsers by their cookie and hands out new ones."""

    sign_ins: SignIns
    # Then it may be sent over https alone, and one that was not is no credential.
    is_https: bool

    @property
    def name(self) -> str:
        """What the cookie is called; browsers keep a `__Host-` cookie to https and to this host."""
        return "__Host-session" if self.is_https else "session"

    def token(self, headers: Headers) -> str | None:
        """The token a browser presents."""
        return cookie_parser(headers.get("cookie", "")).get(self.name)

    async def recognise(self, method: str, headers: Headers) -> Caller:
        """Who asks; raise `Unauthenticated`, or `Denied` when another site's page made them ask."""
        caller = await self.sign_ins.recognise(self.token(headers))
        check_own_page(method, headers)
        return caller

    def given(self, token: str) -> str:
        """The header that gives a browser its cookie, for as long as a session can last."""
        seconds = int(self.sign_ins.life.whole.total_seconds())
        return f"{self.name}={token}; Max-Age={seconds}; {self._traits}"

    @property
    def taken(self) -> str:
        """The header that takes the cookie from a browser."""
        return f"{self.name}=; Max-Age=0; {self._traits}"

    @property
    def _traits(self) -> str:
        return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if self.is_https else "")


def check_own_page(method: str, headers: Headers) -> None:
    """Raise `Denied` for a write that a page of another origin made a browser send."""
    if method in _READING:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _OWN:
        raise Denied("Another site's page asked for this.")
    if origin is not None and not _is_ours(origin, headers):
        raise Denied("Another site's page asked for this.")


def _is_ours(origin: str, headers: Headers) -> bool:
    """Whether the page comes from where the request goes to; behind a proxy the scheme differs."""
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False
