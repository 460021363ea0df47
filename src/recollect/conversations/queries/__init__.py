"""SQL for threads, messages, files and segments."""
