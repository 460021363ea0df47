"""The outside models, one Protocol each, and what the product ships in their place."""
