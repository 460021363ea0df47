"""Helpers that tests share: engines, clients, fakes and sample data."""
