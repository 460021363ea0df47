"""Search memories by meaning, words and links, and browse them in lists and as a graph."""
