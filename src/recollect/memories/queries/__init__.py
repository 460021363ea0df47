"""The SQL of memories, their links, sources and assets."""
