"""What the command lines of benchmarks that run a server have in common."""

import os
import platform
import signal


def begin(about: str = "") -> None:
    """Say on what machine this runs, and let a run that is told to stop end its server first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}{about}",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    """Several numbers, with commas between them."""
    return [int(part) for part in text.split(",")]
