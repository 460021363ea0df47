"""Vectors of memories and documents: generations, backfill and vector indexes."""
