"""The door for key/value memories with scopes."""
