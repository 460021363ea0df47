"""Database addresses as people type them: checked early, and never shown with their password."""

import argparse
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from recollect.errors import Invalid


def check_url(name: str, url: str) -> None:
    """Raise `Invalid` unless the driver can read the address; the message does not repeat it."""
    try:
        if not url.startswith(("postgres://", "postgresql://")):
            raise Invalid(f"`{name}` must begin with `postgresql://`.")
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # What the driver says may hold the whole address, password and all.
        said = str(error).split(":", 1)[0].strip()
        raise Invalid(
            f"`{name}` cannot be read: {said}. "
            "It looks like `postgresql://user:password@host:5432/database`."
        ) from error


def database_url(text: str) -> str:
    """An address given on the command line."""
    try:
        check_url("--to", text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text


def shown(url: str) -> str:
    """The address without its password, wherever it stands."""
    # Up to the last @: a password with one in it, written as it is, must not show its end.
    without = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", without)
