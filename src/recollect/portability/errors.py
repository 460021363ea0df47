"""Errors about a whole file; errors about one line are reported as a `Refusal`."""

from recollect.core.errors import Invalid


class UnreadableFile(Invalid):
    """The file has the wrong format, or is not safe to read. Nothing was imported from it."""
