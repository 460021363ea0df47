"""Turns with a chat model: recall, injection, the model's answer and its tools."""
