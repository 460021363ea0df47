"""The plain REST API: `/v1/memory`, `/v1/memories`, `/v1/sessions`, `/v1/traces`."""
