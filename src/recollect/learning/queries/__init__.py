"""SQL queries for learning."""
