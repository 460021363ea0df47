"""The router door: any OpenAI client, now with a memory."""
