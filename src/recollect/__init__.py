"""Recollect: the long-term memory for every chat and agent a team runs."""

__version__ = "0.1.0"
