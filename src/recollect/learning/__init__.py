"""Learning memories from messages: inbox, distiller, write gate and review."""
