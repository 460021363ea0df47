"""One frozen `Settings`, read from the environment and `recollect.toml`; nothing is read at import.

`docs/configuration.md` lists the same settings; a test compares the two.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from recollect.errors import Invalid

PREFIX = "RECOLLECT_"
USUAL_FILE = Path("recollect.toml")

# To listen everywhere is no name to be called by.
_NO_NAMES = {"", "0.0.0.0", "::"}  # noqa: S104


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible embeddings endpoint the operator has configured."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Upstream:
    """An OpenAI-compatible chat endpoint the operator has configured."""

    url: str
    key: str | None = field(default=None, repr=False)
    # What background work asks it for; a request names its own.
    model: str | None = None
    # Whether it takes tools: some models refuse any request that offers one.
    tools: bool = True


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, per million tokens, in whatever money the operator counts."""

    input: float
    output: float


def _setting(text: str, default: Any) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator may change; the rest are constants beside the code they rule."""

    host: str = _setting("Address to listen on.", "127.0.0.1")
    port: int = _setting("Port to listen on.", 8484)
    hosts: str | None = _setting(
        "Names it is reached by beside this machine's own, separated by commas. "
        "`/mcp` answers under no other.",
        None,
    )
    data_dir: Path | None = _setting(
        "Where the embedded database and the model cache live. Default: a directory of the user's.",
        None,
    )
    database_url: str | None = _setting(
        "An external PostgreSQL (17+, pgvector 0.8+) instead of the embedded one. "
        "Also read from `DATABASE_URL`.",
        None,
    )
    pool_size: int = _setting("Most database connections a process opens.", 10)
    pgbouncer: bool = _setting(
        "Set when PgBouncer in transaction mode stands between: nothing is prepared, listened for "
        "or broken off.",
        False,
    )
    postgres_bin: Path | None = _setting(
        "A directory with `postgres` and `initdb` for the embedded database to use.", None
    )
    embedding_url: str | None = _setting(
        "Base URL of an OpenAI-compatible embeddings endpoint. Default: the built-in model.", None
    )
    embedding_model: str | None = _setting("Model to ask that endpoint for.", None)
    embedding_key: str | None = _setting("Its API key.", None)
    embedding_deadline_ms: int = _setting(
        "How long a save waits for its vector before it is stored without one.", 1_000
    )
    weights_dir: Path | None = _setting(
        "A directory holding the built-in model's `model_quantized.onnx` and `tokenizer.json`.",
        None,
    )
    chat_url: str | None = _setting(
        "Base URL of an OpenAI-compatible chat endpoint, such as `https://api.openai.com/v1`. "
        "Default: the built-in `recollect-librarian` alone.",
        None,
    )
    chat_model: str | None = _setting(
        "Model that background work asks that endpoint for, and requests that name none.", None
    )
    chat_key: str | None = _setting("Its API key.", None)
    chat_tools: bool = _setting(
        "Whether the memory tools are offered to it; some models refuse tools.", True
    )
    chat_idle_seconds: int = _setting("Longest silence of a chat endpoint within an answer.", 120)
    segment_messages: int = _setting(
        "Messages after which a stretch of conversation is summarised, at most 1000. 0: never, "
        "whatever happens.",
        20,
    )
    segment_minutes: int = _setting("Minutes of silence that end a stretch of conversation.", 30)
    segment_tie: float = _setting(
        "Likeness, 0 to 1, below which a message begins another topic. Measured for the built-in "
        "embedder; `recollect segment --dry-run` shows it at work.",
        0.2,
    )
    summary_model: str | None = _setting(
        "Chat model that writes summaries: a model's name, `NAME/M`, or `local` for none. "
        "Default: the one background work asks.",
        None,
    )
    inject_floor: float = _setting(
        "How relevant a memory must be, 0 to 1, to be told to a model unasked.", 0.7
    )
    inject_deadline_ms: int = _setting(
        "How long a turn waits for its memories before it goes on without them.", 1_000
    )
    review: bool = _setting(
        "Whether what is learnt in the background waits for a person to accept it.", False
    )
    daily_tokens: int = _setting(
        "Tokens a workspace's models may use a day. Background work stops at four fifths of it. "
        "0: no limit.",
        0,
    )
    rate_per_minute: int = _setting("Requests a key may make a minute. 0: no limit.", 100)
    rate_burst: int = _setting("Requests a key may make at once.", 200)
    rate_writes: int = _setting(
        "Of these, requests a minute that change something. 0: no limit of their own.", 0
    )
    rate_searches: int = _setting(
        "Of these, searches and recalls a minute. 0: no limit of their own.", 0
    )
    rate_turns: int = _setting("Of these, turns a minute. 0: no limit of their own.", 0)
    rate_uploads: int = _setting("Of these, files a minute. 0: no limit of their own.", 0)
    turns_at_once: int = _setting(
        "Turns a key may have under way at once at `/v1`. 0: no limit.", 256
    )
    turn_seconds: int = _setting("Longest a turn may take, whatever the model still says.", 600)
    https: bool = _setting(
        "Set when a proxy with https stands in front: browsers are then known by the cookie "
        "`__Host-session`, which they send over https alone.",
        False,
    )
    proxies: str | None = _setting(
        "Addresses of the proxies in front, separated by commas. From nobody else is "
        "`X-Forwarded-For` believed.",
        None,
    )
    session_idle_hours: int = _setting("Hours without a word that sign a browser out.", 168)
    session_days: int = _setting("Days after which a browser must sign in again in any case.", 30)
    workers: int = _setting("Jobs `serve` runs at once in its own process. 0: none.", 2)
    metrics_key: str | None = _setting(
        "Bearer key for `/metrics`. Unset: answered to this machine's own addresses only.", None
    )
    log_level: str = _setting("debug, info, warning or error.", "info")
    log_format: str = _setting("`console` for people, `json` for collectors.", "console")
    embedders: Mapping[str, Endpoint] = field(
        default_factory=dict[str, Endpoint],
        metadata={
            "help": "Named endpoints (`[embedders.NAME]` with url, model, key) "
            "that a workspace may use instead."
        },
    )
    upstreams: Mapping[str, Upstream] = field(
        default_factory=dict[str, Upstream],
        metadata={
            "help": "Further chat endpoints (`[upstreams.NAME]` with url, key, model, tools), "
            "asked for a model `M` by the name `NAME/M`."
        },
    )
    prices: Mapping[str, Price] = field(
        default_factory=dict[str, Price],
        metadata={
            "help": 'What models cost (`[prices]`, `"MODEL" = { input = ..., output = ... }` per '
            "million tokens), by the beginning of their names; the longest that fits counts."
        },
    )

    @property
    def names(self) -> list[str]:
        """The names it is reached by, beside this machine's own, as they stand in an address."""
        told = [self.host, *(self.hosts or "").split(",")]
        found = [name.strip() for name in told if name.strip() not in _NO_NAMES]
        return [f"[{name}]" if ":" in name and name[0] != "[" else name for name in found]

    @property
    def trusted_proxies(self) -> frozenset[str]:
        """The addresses that may say for whom they ask."""
        return frozenset(filter(None, map(str.strip, (self.proxies or "").split(","))))

    @property
    def embedding_deadline(self) -> timedelta:
        """The deadline as a duration."""
        return timedelta(milliseconds=self.embedding_deadline_ms)


def read_settings(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from the command line, the environment and the file, in that order of weight.

    Raises `Invalid` on anything unknown: a setting nobody reads is a mistake nobody sees.
    """
    env = os.environ if environment is None else environment
    named = named_file(file, env)
    values = _from_file(named or USUAL_FILE, must_exist=named is not None)
    values |= _from_environment(env)
    values |= overrides or {}
    endpoints = values.pop("embedders", {})
    upstreams = values.pop("upstreams", {})
    prices = values.pop("prices", {})
    settings = Settings(
        **{name: _typed(name, value) for name, value in values.items()},
        embedders={name: _endpoint(name, table) for name, table in endpoints.items()},
        upstreams={name: _upstream(name, table) for name, table in upstreams.items()},
        prices={name: _price(name, table) for name, table in prices.items()},
    )
    _check(settings)
    return settings


def named_file(given: Path | None, environment: Mapping[str, str] | None = None) -> Path | None:
    """The settings file named on the command line or in the environment, where one is."""
    env = os.environ if environment is None else environment
    told = env.get(PREFIX + "CONFIG")
    return given or (Path(told) if told else None)


def take_key(environment: MutableMapping[str, str] | None = None) -> str | None:
    """The key a command presents; taken out of the environment, so that no child inherits it."""
    env = os.environ if environment is None else environment
    return env.pop(PREFIX + "KEY", None) or None


def documented() -> list[tuple[str, str, Any]]:
    """Each setting as (name, help, default), in order."""
    return [(each.name, each.metadata["help"], each.default) for each in fields(Settings)]


def _from_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    if not path.exists():
        if must_exist:
            raise Invalid(f"The settings file `{path}` does not exist.")
        return {}
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"`{path}` is not valid TOML: {error}.") from error
    known = {each.name for each in fields(Settings)}
    for name in values:
        if name not in known:
            raise Invalid(f"`{path}` has a setting `{name}` that does not exist.{_nearest(name)}")
    return values


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    known = {PREFIX + each.name.upper(): each.name for each in fields(Settings)}
    values: dict[str, Any] = {}
    if env.get("DATABASE_URL"):
        values["database_url"] = env["DATABASE_URL"]
    for name, value in env.items():
        if not name.startswith(PREFIX) or name in _ELSEWHERE:
            continue
        if name not in known or known[name] in {"embedders", "upstreams", "prices"}:
            # A misspelt setting that is silently ignored can send data to the wrong database.
            hint = _nearest(name.removeprefix(PREFIX).lower())
            raise Invalid(f"The environment variable `{name}` is no setting of Recollect.{hint}")
        if value != "":
            values[known[name]] = value
    return values


# Read by others: the file's own place, and the key that command-line clients present.
_ELSEWHERE = {PREFIX + "CONFIG", PREFIX + "KEY", PREFIX + "URL"}


def _nearest(name: str) -> str:

    found = difflib.get_close_matches(name, [each.name for each in fields(Settings)], n=1)
    return f" Did you mean `{found[0]}`?" if found else ""


def _typed(name: str, value: Any) -> Any:
    wanted = {each.name: str(each.type) for each in fields(Settings)}[name]
    try:
        if "Path" in wanted:
            return Path(value).expanduser()
        if "bool" in wanted:
            return value if isinstance(value, bool) else _truth(value)
        if "int" in wanted:
            return int(value)
        if "float" in wanted:
            return float(value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"The setting `{name}` must be {_spoken(wanted)}.", field=name) from error
    return str(value)


def _truth(text: str) -> bool:
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError(text)


def _spoken(wanted: str) -> str:
    if "bool" in wanted:
        return "`true` or `false`"
    if "float" in wanted:
        return "a number"
    return "a whole number" if "int" in wanted else "a path"


def _endpoint(name: str, table: Mapping[str, Any]) -> Endpoint:
    unknown = set(table) - {"url", "model", "key"}
    if unknown or not {"url", "model"} <= set(table):
        raise Invalid(f"`[embedders.{name}]` takes `url`, `model` and, if needed, `key`.")
    return Endpoint(url=table["url"], model=table["model"], key=table.get("key"))


def _upstream(name: str, table: Mapping[str, Any]) -> Upstream:
    if set(table) - {"url", "key", "model", "tools"} or "url" not in table or "/" in name:
        raise Invalid(f"`[upstreams.{name}]` takes `url` and, if needed, `key`, `model`, `tools`.")
    return Upstream(table["url"], table.get("key"), table.get("model"), table.get("tools", True))


def _price(name: str, table: Any) -> Price:
    told = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    numbers = [told.get("input"), told.get("output")]
    is_right = all(
        isinstance(each, (int, float)) and not isinstance(each, bool) and 0 <= each < math.inf
        for each in numbers
    )
    if not is_right or len(told) != len(numbers):
        raise Invalid(f"`[prices]` takes `input` and `output` for `{name}`, per million tokens.")
    return Price(float(told["input"]), float(told["output"]))


def _check(settings: Settings) -> None:
    if not 0 <= settings.port <= 65_535:
        raise Invalid(f"The setting `port` is `{settings.port}`; ports end at 65535.")
    if settings.pool_size < 2:
        raise Invalid("The setting `pool_size` must be at least 2.")
    if settings.log_level not in {"debug", "info", "warning", "error"}:
        raise Invalid("The setting `log_level` must be debug, info, warning or error.")
    if settings.log_format not in {"console", "json"}:
        raise Invalid("The setting `log_format` must be console or json.")
    if settings.database_url and not settings.database_url.startswith(
        ("postgres://", "postgresql://")
    ):
        raise Invalid("`DATABASE_URL` must begin with `postgresql://`.")
    if settings.embedding_url and not settings.embedding_model:
        raise Invalid("`embedding_url` is set but `embedding_model` is not: which model?")
    if settings.segment_messages > 1_000:  # all of a stretch is read and embedded at once
        raise Invalid(
            f"The setting `segment_messages` is `{settings.segment_messages}`; "
            "a stretch has at most 1000."
        )
    if not 0 <= settings.segment_tie <= 1:
        raise Invalid("The setting `segment_tie` must be between 0 and 1.")
    if not 0 <= settings.inject_floor <= 1:
        raise Invalid("The setting `inject_floor` must lie between 0 and 1.")
    if settings.turn_seconds < 1:
        raise Invalid("The setting `turn_seconds` must be at least 1.")
    if min(settings.session_idle_hours, settings.session_days) < 1:
        raise Invalid("The settings `session_idle_hours` and `session_days` must be at least 1.")
    for name in (
        "rate_per_minute",
        "rate_burst",
        "rate_writes",
        "rate_searches",
        "rate_turns",
        "rate_uploads",
        "turns_at_once",
        "workers",
        "embedding_deadline_ms",
        "chat_idle_seconds",
        "segment_messages",
        "segment_minutes",
    ):
        if getattr(settings, name) < 0:
            raise Invalid(f"The setting `{name}` must not be negative.")
