"""The Informer interface: chats, messages, files and their memories, as HAL."""
