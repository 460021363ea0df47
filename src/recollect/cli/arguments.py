"""What the subcommands share in reading their arguments."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from recollect.domain import Right

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no public name
else:
    Commands = object

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str) -> datetime:
    """A time as a date, a timestamp, or how long from now: `90d`, `12h`."""
    if text[-1:] in _UNITS and text[:-1].isdigit():
        return datetime.now(UTC) + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}` is no time: write 2027-01-31, 90d or 12h"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def rights(text: str) -> tuple[Right, ...]:
    """Rights separated by commas."""
    try:
        return tuple(dict.fromkeys(Right(part.strip()) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}`: rights are {', '.join(Right)}, separated by commas"
        ) from None
