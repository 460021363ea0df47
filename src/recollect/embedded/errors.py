"""The error raised when the embedded PostgreSQL cannot run.

Unlike the responses of an interface, its messages contain paths: the reader owns the server.
"""

from recollect.core.errors import Failure


class CannotStart(Failure):
    """The embedded PostgreSQL cannot run here; the message says why and what to do."""
