"""What tests share: a house with a real database, an embedder whose every cosine is exact, a clock."""
