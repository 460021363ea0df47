"""The SQL of threads, messages, files and segments."""
