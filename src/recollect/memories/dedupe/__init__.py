"""Decides whether two statements say the same. Pure."""
