"""Find the boundaries between segments of a conversation."""
