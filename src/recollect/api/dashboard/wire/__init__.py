"""Wire models of the dashboard's routes."""
