"""What is wrong with a file as a whole; what is wrong with one line is told with the line."""

from recollect.errors import Invalid


class Unreadable(Invalid):
    """The file is not what it should be, or not safe to read. Nothing of it was kept."""
