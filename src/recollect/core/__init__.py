"""Domain types, errors, settings, logs and metrics. This package imports no other part."""
