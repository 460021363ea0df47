"""Field types that several interfaces share: times, labels, tags, bodies and query strings."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _zoned_time(value: Any) -> Any:
    """Parse an RFC 3339 time. Without a zone it is UTC."""
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 time")  # noqa: TRY004 - pydantic needs ValueError
    try:
        parsed = datetime.fromisoformat(value)
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        zoned.astimezone(UTC)  # raises if it is out of range in UTC
    except (ValueError, OverflowError):
        raise ValueError("must be an RFC 3339 time") from None
    return zoned


def _check_year(value: datetime) -> datetime:
    if not 1 < value.year < 9999:
        raise ValueError("the year is out of range")
    return value


# Keeps the given time zone, which determines the calendar day.
ZonedTime = Annotated[
    datetime,
    BeforeValidator(
        _zoned_time,
        json_schema_input_type=Annotated[str, Field(json_schema_extra={"format": "date-time"})],
    ),
    AfterValidator(_check_year),
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


def clamp(requested: int | None, *, default: int, maximum: int) -> int:
    """The page size to use: the requested one, at most `maximum`."""
    return min(requested or default, maximum)
