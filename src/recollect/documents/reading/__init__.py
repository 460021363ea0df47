"""Reading documents: what type a file is, its text, and the chunks it is cut into.

The reading itself happens in a child process that can do nothing but read (`child.py`); the rest
of the house starts it (`process.py`) and sees plain values.
"""
