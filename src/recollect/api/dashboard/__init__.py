"""The dashboard: the web page and its JSON routes, for signed-in users."""
