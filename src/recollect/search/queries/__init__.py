"""SQL for searching and browsing."""
