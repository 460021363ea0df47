"""Saving, editing, linking and forgetting memories."""
