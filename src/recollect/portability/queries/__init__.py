"""SQL for export, import and erasure."""
