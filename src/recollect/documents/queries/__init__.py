"""The SQL of documents and their chunks."""
