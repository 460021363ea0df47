"""The settings: one frozen value, read from the environment and `recollect.toml` on request.

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

from recollect.core.errors import Invalid

PREFIX = "RECOLLECT_"
DEFAULT_FILE = Path("recollect.toml")

DEFAULT_KIND = "openai"

# Addresses that mean "listen everywhere". Clients cannot use them as a host name.
_WILDCARD_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint:
    """An embeddings endpoint the operator has configured."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    # The API that it speaks; see `models/kinds.py`.
    kind: str = DEFAULT_KIND


@dataclass(frozen=True, slots=True)
class Upstream:
    """A chat endpoint the operator has configured."""

    url: str
    key: str | None = field(default=None, repr=False)
    # The model for background jobs. A request names its own.
    model: str | None = None
    # Some models refuse every request that offers tools.
    tools: bool = True
    kind: str = DEFAULT_KIND


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model per million tokens, in the operator's currency."""

    input: float
    output: float


def _setting(text: str, default: Any) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator may change. All other values are constants next to their code."""

    host: str = _setting("Address to listen on.", "127.0.0.1")
    port: int = _setting("Port to listen on.", 8484)
    hosts: str | None = _setting(
        "Host names that clients use besides this machine's own, separated by commas. "
        "`/mcp` rejects all others.",
        None,
    )
    data_dir: Path | None = _setting(
        "Directory of the embedded database and the model cache. "
        "Default: a directory in the user's home.",
        None,
    )
    database_url: str | None = _setting(
        "An external PostgreSQL (17+, pgvector 0.8+) instead of the embedded one. "
        "Also read from `DATABASE_URL`.",
        None,
    )
    pool_size: int = _setting("Maximum number of database connections per process.", 10)
    pgbouncer: bool = _setting(
        "Set it if the database is behind PgBouncer in transaction mode. Disables prepared "
        "statements, `LISTEN` and query cancellation.",
        False,
    )
    postgres_bin: Path | None = _setting(
        "Directory of the `postgres` and `initdb` programs for the embedded database.", None
    )
    embedding_url: str | None = _setting(
        "Base URL of an OpenAI-compatible embeddings endpoint. Default: the built-in model.", None
    )
    embedding_model: str | None = _setting("Model at the embeddings endpoint.", None)
    embedding_key: str | None = _setting("API key for the embeddings endpoint.", None)
    embedding_kind: str = _setting(
        "API of the embeddings endpoint: `openai` for every OpenAI-compatible one.", DEFAULT_KIND
    )
    embedding_deadline_ms: int = _setting(
        "How long a save waits for its vector. After that it is stored without one.", 1_000
    )
    weights_dir: Path | None = _setting(
        "Directory with the built-in model's `model_quantized.onnx` and `tokenizer.json`.",
        None,
    )
    chat_url: str | None = _setting(
        "Base URL of an OpenAI-compatible chat endpoint, such as `https://api.openai.com/v1`. "
        "Default: only the built-in `recollect-librarian`.",
        None,
    )
    chat_model: str | None = _setting(
        "Model at the chat endpoint for background jobs and for requests that name no model.", None
    )
    chat_key: str | None = _setting("API key for the chat endpoint.", None)
    chat_kind: str = _setting(
        "API of the chat endpoint: `openai` for every OpenAI-compatible one.", DEFAULT_KIND
    )
    chat_tools: bool = _setting(
        "Whether to offer the memory tools to the chat model. Some models refuse tools.", True
    )
    chat_idle_seconds: int = _setting(
        "Longest pause of a chat endpoint within one answer, in seconds.", 120
    )
    learning_seconds: int = _setting(
        "How long learning waits for a chat model to process a message.", 60
    )
    summary_seconds: int = _setting(
        "How long a summary waits for a chat model before it is written without one.", 30
    )
    synthesis_seconds: int = _setting(
        "How long a synthesis waits for a chat model before it is written without one.", 30
    )
    segment_messages: int = _setting(
        "Number of messages after which a conversation segment is summarised, at most 1000. "
        "0: never summarise.",
        20,
    )
    segment_minutes: int = _setting("Minutes of silence that end a conversation segment.", 30)
    segment_tie: float = _setting(
        "Similarity, 0 to 1, below which a message starts a new topic. Measured for the built-in "
        "embedder. Try it with `recollect segment --dry-run`.",
        0.2,
    )
    summary_model: str | None = _setting(
        "Chat model that writes summaries: a model name, `NAME/M`, or `local` for none. "
        "Default: the model for background jobs.",
        None,
    )
    inject_floor: float = _setting(
        "Minimum relevance, 0 to 1, of a memory that is added to a chat request automatically.",
        0.7,
    )
    inject_deadline_ms: int = _setting(
        "How long a turn waits for its memories. After that it continues without them.", 1_000
    )
    review: bool = _setting(
        "Whether memories learnt in the background must be accepted by a person.", False
    )
    daily_tokens: int = _setting(
        "Tokens per day for a workspace's models. Background jobs stop at four fifths of it. "
        "0: no limit.",
        0,
    )
    rate_per_minute: int = _setting("Requests per minute and key. 0: no limit.", 100)
    rate_burst: int = _setting("Requests that a key may make in one burst.", 200)
    rate_writes: int = _setting(
        "Write requests per minute and key. 0: only `rate_per_minute` applies.", 0
    )
    rate_searches: int = _setting(
        "Searches and recalls per minute and key. 0: only `rate_per_minute` applies.", 0
    )
    rate_turns: int = _setting("Turns per minute and key. 0: only `rate_per_minute` applies.", 0)
    rate_uploads: int = _setting(
        "Uploaded files per minute and key. 0: only `rate_per_minute` applies.", 0
    )
    connections_per_address: int = _setting(
        "Open connections per client address, except proxies; never more than three quarters of "
        "all connections. 0: only that limit applies.",
        256,
    )
    turns_at_once: int = _setting("Concurrent turns per key at `/v1`. 0: no limit.", 256)
    turn_seconds: int = _setting("Maximum duration of a turn in seconds.", 600)
    https: bool = _setting(
        "Set it if a proxy in front of the server uses HTTPS. The session cookie is then named "
        "`__Host-session`, and browsers send it only over HTTPS.",
        False,
    )
    proxies: str | None = _setting(
        "Addresses of the proxies in front of the server, separated by commas. "
        "`X-Forwarded-For` from any other address is ignored.",
        None,
    )
    session_idle_hours: int = _setting("Hours of inactivity that sign a browser out.", 168)
    session_days: int = _setting("Days after which a browser must sign in again.", 30)
    workers: int = _setting("Jobs that `serve` runs concurrently in its own process. 0: none.", 2)
    metrics_key: str | None = _setting(
        "Bearer key for `/metrics`. Unset: only requests from this machine are allowed.", None
    )
    log_level: str = _setting("`debug`, `info`, `warning` or `error`.", "info")
    log_format: str = _setting("`console` for people, `json` for log collectors.", "console")
    embedders: Mapping[str, EmbeddingEndpoint] = field(
        default_factory=dict[str, EmbeddingEndpoint],
        metadata={
            "help": "Named embeddings endpoints (`[embedders.NAME]` with url, model, key, kind) "
            "that a workspace may use instead."
        },
    )
    upstreams: Mapping[str, Upstream] = field(
        default_factory=dict[str, Upstream],
        metadata={
            "help": "More chat endpoints (`[upstreams.NAME]` with url, key, model, tools, kind). "
            "Their model `M` is named `NAME/M`."
        },
    )
    prices: Mapping[str, Price] = field(
        default_factory=dict[str, Price],
        metadata={
            "help": 'Prices of models (`[prices]`, `"MODEL" = { input = ..., output = ... }` per '
            "million tokens) by the start of their names. The longest match applies."
        },
    )

    @property
    def names(self) -> list[str]:
        """The host names that clients use besides this machine's own, as written in a URL."""
        given = [self.host, *(self.hosts or "").split(",")]
        names = [name.strip() for name in given if name.strip() not in _WILDCARD_HOSTS]
        return [f"[{name}]" if ":" in name and name[0] != "[" else name for name in names]

    @property
    def trusted_proxies(self) -> frozenset[str]:
        """The addresses whose `X-Forwarded-For` header is trusted."""
        return frozenset(filter(None, map(str.strip, (self.proxies or "").split(","))))

    @property
    def embedding_deadline(self) -> timedelta:
        """`embedding_deadline_ms` as a duration."""
        return timedelta(milliseconds=self.embedding_deadline_ms)


def read_settings(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from the command line, the environment and the file, in that order of precedence.

    Raises `Invalid` for an unknown name, so that a misspelt setting is not silently ignored.
    """
    env = os.environ if environment is None else environment
    named = named_file(file, env)
    values = _from_file(named or DEFAULT_FILE, must_exist=named is not None)
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
    """The settings file named on the command line or in the environment, if any."""
    env = os.environ if environment is None else environment
    variable = env.get(PREFIX + "CONFIG")
    return given or (Path(variable) if variable else None)


def take_key(environment: MutableMapping[str, str] | None = None) -> str | None:
    """The API key of a command. Removes it from the environment, so that no child inherits it."""
    env = os.environ if environment is None else environment
    return env.pop(PREFIX + "KEY", None) or None


def list_settings() -> list[tuple[str, str, Any]]:
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
            raise Invalid(f"`{path}` has an unknown setting `{name}`.{_suggestion(name)}")
    return values


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    known = {PREFIX + each.name.upper(): each.name for each in fields(Settings)}
    values: dict[str, Any] = {}
    if env.get("DATABASE_URL"):
        values["database_url"] = env["DATABASE_URL"]
    for name, value in env.items():
        if not name.startswith(PREFIX) or name in _READ_ELSEWHERE:
            continue
        if name not in known or known[name] in {"embedders", "upstreams", "prices"}:
            # A misspelt setting that is silently ignored can send data to the wrong database.
            hint = _suggestion(name.removeprefix(PREFIX).lower())
            raise Invalid(f"The environment variable `{name}` is not a Recollect setting.{hint}")
        if value != "":
            values[known[name]] = value
    return values


# Variables that other code reads: the path of the file, and the key and URL of commands.
_READ_ELSEWHERE = {PREFIX + "CONFIG", PREFIX + "KEY", PREFIX + "URL"}


def _suggestion(name: str) -> str:
    found = difflib.get_close_matches(name, [each.name for each in fields(Settings)], n=1)
    return f" Did you mean `{found[0]}`?" if found else ""


def _typed(name: str, value: Any) -> Any:
    wanted = {each.name: str(each.type) for each in fields(Settings)}[name]
    try:
        if "Path" in wanted:
            return Path(value).expanduser()
        if "bool" in wanted:
            return value if isinstance(value, bool) else _parse_bool(value)
        if "int" in wanted:
            return int(value)
        if "float" in wanted:
            return float(value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"The setting `{name}` must be {_type_name(wanted)}.", field=name) from error
    return str(value)


def _parse_bool(text: str) -> bool:
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError(text)


def _type_name(wanted: str) -> str:
    if "bool" in wanted:
        return "`true` or `false`"
    if "float" in wanted:
        return "a number"
    return "a whole number" if "int" in wanted else "a path"


def _endpoint(name: str, table: Mapping[str, Any]) -> EmbeddingEndpoint:
    unknown = set(table) - {"url", "model", "key", "kind"}
    if unknown or not {"url", "model"} <= set(table):
        raise Invalid(f"`[embedders.{name}]` takes `url`, `model` and, if needed, `key`, `kind`.")
    return EmbeddingEndpoint(**table)


def _upstream(name: str, table: Mapping[str, Any]) -> Upstream:
    if set(table) - {"url", "key", "model", "tools", "kind"} or "url" not in table or "/" in name:
        raise Invalid(
            f"`[upstreams.{name}]` takes `url` and, if needed, `key`, `model`, `tools`, `kind`."
        )
    return Upstream(**table)


def _price(name: str, table: Any) -> Price:
    given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    numbers = [given.get("input"), given.get("output")]
    is_valid = all(
        isinstance(each, (int, float)) and not isinstance(each, bool) and 0 <= each < math.inf
        for each in numbers
    )
    if not is_valid or len(given) != len(numbers):
        raise Invalid(f"`[prices]` takes `input` and `output` for `{name}`, per million tokens.")
    return Price(float(given["input"]), float(given["output"]))


def _check(settings: Settings) -> None:
    if not 0 <= settings.port <= 65_535:
        raise Invalid(f"The setting `port` is `{settings.port}`. It must be from 0 to 65535.")
    if settings.pool_size < 2:
        raise Invalid("The setting `pool_size` must be at least 2.")
    if settings.log_level not in {"debug", "info", "warning", "error"}:
        raise Invalid("The setting `log_level` must be `debug`, `info`, `warning` or `error`.")
    if settings.log_format not in {"console", "json"}:
        raise Invalid("The setting `log_format` must be `console` or `json`.")
    if settings.database_url and not settings.database_url.startswith(
        ("postgres://", "postgresql://")
    ):
        raise Invalid("`DATABASE_URL` must begin with `postgresql://`.")
    if settings.embedding_url and not settings.embedding_model:
        raise Invalid("`embedding_url` is set, so set `embedding_model` too.")
    if settings.segment_messages > 1_000:  # a whole segment is read and embedded at once
        raise Invalid(
            f"The setting `segment_messages` is `{settings.segment_messages}`. "
            "It must be at most 1000."
        )
    if not 0 <= settings.segment_tie <= 1:
        raise Invalid("The setting `segment_tie` must be between 0 and 1.")
    if not 0 <= settings.inject_floor <= 1:
        raise Invalid("The setting `inject_floor` must be between 0 and 1.")
    for name in ("turn_seconds", "learning_seconds", "summary_seconds", "synthesis_seconds"):
        if getattr(settings, name) < 1:
            raise Invalid(f"The setting `{name}` must be at least 1.")
    if min(settings.session_idle_hours, settings.session_days) < 1:
        raise Invalid("The settings `session_idle_hours` and `session_days` must be at least 1.")
    for name in (
        "rate_per_minute",
        "rate_burst",
        "rate_writes",
        "rate_searches",
        "rate_turns",
        "rate_uploads",
        "connections_per_address",
        "turns_at_once",
        "workers",
        "embedding_deadline_ms",
        "chat_idle_seconds",
        "segment_messages",
        "segment_minutes",
    ):
        if getattr(settings, name) < 0:
            raise Invalid(f"The setting `{name}` must not be negative.")
