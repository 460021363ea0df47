"""Helpers shared by the subcommands: how to declare them and how to parse their arguments."""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.core.domain import Right

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no public name
else:
    Commands = object

# One line per command. They are kept here so that `--help` can list the commands without importing
# them: the imports of a server take a second.
SUMMARIES = {
    "serve": "start the server, its database and its workers",
    "work": "run workers without a server",
    "mcp": "run an MCP server on standard input and output",
    "doctor": "check the installation and suggest fixes",
    "key": "create, list, replace and revoke API keys",
    "org": "create, list, rename, archive and delete orgs",
    "user": "create, list, rename, archive and delete users",
    "workspace": "create, list, rename, archive and delete workspaces",
    "project": "create, list, rename, archive and delete projects, and manage their members",
    "agent": "create, list, rename, archive and delete agents",
    "document": "add, list and delete documents",
    "erase": "erase a person, a thread or a memory key and all data derived from it",
    "verify-erasure": "check that the data named by an erasure receipt is gone",
    "backup": "write everything into one file",
    "restore": "load a backup into an empty instance",
    "move": "move everything to an external PostgreSQL",
    "export": "write a workspace, a user's data or a thread as JSON Lines",
    "import": "import an export, or data from another system",
    "migrate": "upgrade the database to this release's schema",
    "jobs": "list background jobs and retry failed ones",
    "distil": "show what would be learnt from a text; nothing is saved",
    "learn": "test the distiller, review candidates, show model usage",
    "reembed": "move every memory to the configured embedding model",
    "segment": "divide a chat into segments again, or show the segments",
    "version": "print the version",
}

# Commands whose module is in a folder of related commands.
_FOLDERS = {
    "tenants": ("org", "user", "workspace", "project", "agent", "key"),
    "data": ("backup", "restore", "move", "export", "import", "erase", "verify-erasure"),
}

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def module_of(command: str) -> str:
    """Return the name of the module that defines a command."""
    folder = next((name for name, commands in _FOLDERS.items() if command in commands), None)
    parts = ["recollect.cli", folder, command.replace("-", "_")]
    return ".".join(part for part in parts if part)


def add_command(
    commands: Commands, name: str, *, about: str, example: str, summary: str | None = None
) -> argparse.ArgumentParser:
    """Add a subcommand whose help has a description and an example."""
    parser = commands.add_parser(
        name,
        help=summary or SUMMARIES[name],
        description=about,
        epilog="example:\n" + "\n".join(f"  {line}" for line in example.splitlines()),
        formatter_class=_Help,
    )
    # A default would overwrite an option given before the verb: `key --data-dir X create`.
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="directory of the embedded database",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="settings file (default: recollect.toml)",
    )
    return parser


def positive_int(text: str) -> int:
    """Parse a whole number greater than zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number greater than zero")
    return int(text)


def parse_time(text: str) -> datetime:
    """Parse a date, a timestamp, or a duration from now such as `90d` or `12h`."""
    try:
        if text[-1:] in _UNITS and text[:-1].isdecimal():
            return datetime.now(UTC) + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"`{text}` is not a valid time: write 2027-01-31, 90d or 12h"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def parse_rights(text: str) -> tuple[Right, ...]:
    """Parse rights separated by commas."""
    try:
        return tuple(dict.fromkeys(Right(part.strip()) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}` is not valid: rights are {', '.join(Right)}, separated by commas"
        ) from None


class _Help(argparse.HelpFormatter):
    """Wraps the description and prints the example lines unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example:"):
            return "\n".join(indent + line for line in text.splitlines())
        return super()._fill_text(text, width, indent)
