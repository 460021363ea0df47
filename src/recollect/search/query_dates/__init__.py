"""Recognise the dates in a question, in eleven languages. Pure."""
