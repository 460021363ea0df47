"""Embedders and chat models: a Protocol for each, endpoints, and the built-in ones."""
