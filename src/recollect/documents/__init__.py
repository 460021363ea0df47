"""Documents: upload, read, split into chunks, and search."""
