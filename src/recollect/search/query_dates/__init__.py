"""The dates a question names, in eleven languages. Pure."""
