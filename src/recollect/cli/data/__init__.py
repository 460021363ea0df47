"""Commands that back up, move, export, import and erase data."""
