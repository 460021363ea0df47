"""Threads, their messages and files, and their segments."""
