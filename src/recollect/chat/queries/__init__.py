"""The SQL for turns."""
