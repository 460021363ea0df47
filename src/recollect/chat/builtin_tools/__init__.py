"""The built-in tools with which a model saves, recalls and searches during a turn."""
