"""The OpenAI interface: it adds memory to any OpenAI client."""
