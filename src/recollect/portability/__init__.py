"""Export, import, erasure and backup."""
