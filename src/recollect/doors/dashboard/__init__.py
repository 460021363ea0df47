"""The dashboard: the web page and the routes behind it, for people who signed in."""
