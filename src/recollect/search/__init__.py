"""Finding memories: by meaning, word and link, in lists and as a graph."""
