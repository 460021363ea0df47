"""The alumia interface: key/value memories with scopes."""
