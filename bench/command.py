"""Shared code of the benchmark command lines."""

import os
import platform
import signal


def print_machine(about: str = "") -> None:
    """Print the machine's details, and make SIGTERM stop the benchmark's server before it exits."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}{about}",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    """Parse numbers separated by commas."""
    return [int(part) for part in text.split(",")]
