"""Conversations as Informer speaks of them: chats, messages, files and their memories, as HAL."""
