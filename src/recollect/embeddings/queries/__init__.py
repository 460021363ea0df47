"""The SQL of vectors."""
