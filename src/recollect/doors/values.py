"""Values that several doors read and write alike: times, labels, tags, bodies, query strings."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _zoned_time(value: Any) -> Any:
    """RFC 3339 as text; a time without a zone is taken as UTC."""
    if not isinstance(value, str):
        raise ValueError("a time in RFC 3339 is needed")  # noqa: TRY004 - pydantic wants it
    try:
        parsed = datetime.fromisoformat(value)
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        zoned.astimezone(UTC)  # raises for one that is beyond the calendar there
    except (ValueError, OverflowError):
        raise ValueError("a time in RFC 3339 is needed") from None
    return zoned


def _within_reach(value: datetime) -> datetime:
    if not 1 < value.year < 9999:
        raise ValueError("the year is out of range")
    return value


# In the zone it was given in, which says what day it is there.
ZonedTime = Annotated[
    datetime,
    BeforeValidator(
        _zoned_time,
        json_schema_input_type=Annotated[str, Field(json_schema_extra={"format": "date-time"})],
    ),
    AfterValidator(_within_reach),
]
Time = Annotated[ZonedTime, AfterValidator(lambda value: value.astimezone(UTC))]
Label = Annotated[str, Field(min_length=1, max_length=255)]
Tags = Annotated[list[Label], Field(max_length=100)]


class Body(BaseModel):
    """A JSON body: exact types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Parameters(BaseModel):
    """A query string: numbers are parsed, unknown parameters ignored."""

    model_config = ConfigDict(extra="ignore")


def iso(time: datetime) -> str:
    """RFC 3339 in UTC."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clamped(asked: int | None, *, default: int, most: int) -> int:
    """The limit to use: more than the most is the most."""
    return min(asked or default, most)
