"""Where a conversation is cut into segments."""
