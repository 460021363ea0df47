"""Database addresses given by users: checked early, and never shown with their password."""

import argparse
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from recollect.core.errors import Invalid


def check_url(name: str, url: str) -> None:
    """Raise `Invalid` if the driver cannot parse the address; the message does not repeat it."""
    try:
        if not url.startswith(("postgres://", "postgresql://")):
            raise Invalid(f"`{name}` must begin with `postgresql://`.")
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # The driver's message may contain the whole address, including the password.
        reason = str(error).split(":", 1)[0].strip()
        raise Invalid(
            f"`{name}` cannot be read: {reason}. "
            "Write it as `postgresql://user:password@host:5432/database`."
        ) from error


def database_url(text: str) -> str:
    """Parse a database address given on the command line."""
    try:
        check_url("--to", text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text


def hide_password(url: str) -> str:
    """Return the address with its password replaced, wherever it appears."""
    # Match up to the last @, because a password may contain an unescaped @.
    without = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", without)
