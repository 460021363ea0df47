"""One package per interface. A route parses a request, calls one function and responds."""
