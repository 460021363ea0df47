"""The SQL of searches and lists."""
