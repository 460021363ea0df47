"""Importers: one module for each system whose data can be imported."""
