"""The SQL of the keyword index."""
