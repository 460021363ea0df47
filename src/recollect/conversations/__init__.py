"""Threads, their messages and files, and the segments they are cut into."""
