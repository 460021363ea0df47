"""What the person at the terminal reads when the embedded PostgreSQL cannot run.

Unlike a door's answers these messages name paths: whoever starts the server owns them.
"""

from recollect.errors import Failure


class CannotStart(Failure):
    """The embedded PostgreSQL cannot run here; the message says why and what to do."""
