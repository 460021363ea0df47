"""One package per interface: each parses a request, calls one verb, writes the answer its way."""
