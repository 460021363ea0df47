"""Read documents: detect the type of a file, extract its text, and split it into chunks.

The reading runs in a confined child process (`child.py`). The rest of the project starts it with
`process.py` and receives plain values.
"""
