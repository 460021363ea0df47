"""Find Chromium for the tests of the web page, or install it if that needs no confirmation."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ELSEWHERE = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)
MISSING = (
    "The tests of the web page need Chromium, and none was found.\n"
    "Install it (Debian and Ubuntu: apt install chromium; macOS: brew install --cask chromium),\n"
    "or put a `chromium` on the PATH."
)
# Chromium must send no requests besides those of the page under test.
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


class NoChromium(Exception):
    """Chromium was not found and could not be installed."""


def find() -> Path:
    """The path of Chromium. Raises `NoChromium` if there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    for path in ELSEWHERE:
        if path.exists():
            return path
    raise NoChromium(MISSING)


@contextmanager
def browser() -> Generator[Browser]:
    """A headless browser, which runs until the block ends."""
    # As root, for example in a container, Chromium refuses to start its sandbox.
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find(), args=flags)
        try:
            yield running
        finally:
            running.close()


def install() -> None:
    """Install Debian's package, as root or with passwordless sudo."""
    apt = shutil.which("apt-get")
    if apt is None:
        raise NoChromium(MISSING)
    before = [] if os.geteuid() == 0 else ["sudo", "-n"]
    command = [*before, apt, "install", "--yes", "--no-install-recommends", "chromium"]
    for preparation in ([], [*before, apt, "update"]):
        if preparation:
            subprocess.run(preparation, check=False, stdout=subprocess.DEVNULL)
        try:
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0:
                return
        except FileNotFoundError:
            break  # no sudo either
    raise NoChromium(MISSING)


def main() -> None:
    """`make browser`."""
    try:
        try:
            find()
        except NoChromium:
            print("Installing Chromium for the tests of the page …")
            install()
            find()
    except NoChromium as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
