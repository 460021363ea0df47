"""`recollect doctor`: looks at every part of an installation and says what to do about it."""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.cli.urls import shown
from recollect.compose import Database, data_dir, open_database
from recollect.domain import utc_now
from recollect.dumps import (
    OLDEST_POSTGRES,
    OLDEST_VECTOR,
    parsed,
    restore_tools,
    tool_version,
)
from recollect.errors import Failure, Unavailable
from recollect.logs import configure_logging
from recollect.models import librarian
from recollect.models.assemble import BUILTIN, assemble, assemble_chats
from recollect.models.chat import Route
from recollect.models.embed import Embedder, Purpose
from recollect.models.lazy import LazyBuiltin
from recollect.models.weights import MODEL, WeightsMissing, find_weights
from recollect.settings import USUAL_FILE, Settings, named_file
from recollect.store import catalogue, identity, jobs
from recollect.store.catalogue import Facts
from recollect.store.migrate import migrations, pending
from recollect.store.pool import Db, connect, is_pooled

OK, WARN, FAIL = "ok", "warn", "FAIL"

_PATIENCE = timedelta(seconds=15)
_LEAST_BYTES = 1_000_000_000
_LEAST_SHARE = 0.05
_MOST_SKEW_SECONDS = 2.0
_MOST_WAITING = timedelta(minutes=10)
# The hub is not asked: a look must not fetch 34 MB. Nothing listens on the discard port.
_NO_HUB = "http://127.0.0.1:9/"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do where something is wrong."""

    check: str
    state: str
    says: str
    todo: str | None = None


Findings = AsyncIterator[Finding]


def add(commands: Commands) -> None:
    """Add the arguments of `doctor`."""
    parser = add_command(
        commands,
        "doctor",
        about="Check settings, database, embedder, vectors, jobs, disk, clock and permissions; one "
        "line each, with what to do about it. Works beside a running server and changes nothing. "
        "Ends with 1 if anything FAILs.",
        example="recollect doctor\n"
        "recollect doctor --json | jq '.checks[] | select(.state != \"ok\")'",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run, without_settings=report_settings)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Check everything, each part by itself, and report."""
    configure_logging("error", settings.log_format)  # what matters is in the report
    return _report(await examine(settings, named_file(asked.config) or USUAL_FILE), asked)


async def examine(settings: Settings, file: Path) -> list[Finding]:
    """What every check finds, in order; never raises."""
    found = [Finding("settings", OK, "read")]
    for check, name in (
        (_aside(_settings_file(settings, file)), "settings file"),
        (_aside(_address(settings)), "address"),
        (_aside(_directory(settings)), "data directory"),
        (_aside(_disk(settings)), "disk"),
        (_weights(settings), "weights"),
        (_embedders(settings), "embedder"),
        (_chats(settings), "chat"),
    ):
        found += await _isolated(name, check)
    return found + await _database(settings)


def report_settings(failure: Failure, asked: argparse.Namespace) -> int:
    """Say that the settings cannot be used; nothing else can be looked at then."""
    todo = "correct it in the environment or in recollect.toml"
    return _report([Finding("settings", FAIL, failure.message, todo)], asked)


def _report(found: list[Finding], asked: argparse.Namespace) -> int:
    is_well = all(each.state != FAIL for each in found)
    if asked.json:
        print(json.dumps({"ok": is_well, "checks": [asdict(each) for each in found]}, indent=2))
        return 0 if is_well else 1
    for each in found:
        todo = f" -> {each.todo}" if each.todo else ""
        print(f"{each.state:<5} {each.check:<15} {each.says}{todo}")
    return 0 if is_well else 1


async def _isolated(name: str, check: Findings) -> list[Finding]:
    """What a check finds; whatever happens to it, the next one gets its turn."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(_PATIENCE.total_seconds()):
            async for each in check:
                found.append(each)  # noqa: PERF401 - what came before a failure counts too
    except TimeoutError:
        found.append(Finding(name, FAIL, f"no answer within {_PATIENCE.seconds} seconds"))
    except Exception as error:  # noqa: BLE001 - a doctor who faints helps nobody
        found.append(Finding(name, FAIL, _said(error)))
    return found


async def _aside(found: Iterator[Finding]) -> Findings:
    for each in found:
        yield each


def _said(error: Exception) -> str:
    if isinstance(error, Unavailable) and error.__cause__:
        error = Exception(f"{error.message} {error.__cause__}")
    text = error.message if isinstance(error, Failure) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _settings_file(settings: Settings, path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    secrets = (
        settings.database_url,
        settings.embedding_key,
        settings.chat_key,
        settings.metrics_key,
        settings.embedders,
        settings.upstreams,
    )
    if path.stat().st_mode & 0o077 and any(secrets):
        yield Finding(
            "settings file",
            WARN,
            f"{path} may hold keys and others can read it",
            f"chmod 600 {path}",
        )
    else:
        yield Finding("settings file", OK, str(path))


def _address(settings: Settings) -> Iterator[Finding]:
    shown = f"{settings.host}:{settings.port}"
    try:
        is_local = ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
    if is_local:
        yield Finding("address", OK, f"{shown}, this machine only")
    else:
        yield Finding(
            "address",
            WARN,
            f"{shown} is reached from other machines, in plain http",
            "put a proxy with https in front of it, or bind 127.0.0.1",
        )


def _directory(settings: Settings) -> Iterator[Finding]:
    home = data_dir(settings)
    if settings.database_url or not home.exists():
        return
    # Where root runs it, the server's group passes through; nobody reads or writes.
    open_to_others = [str(home)] if home.stat().st_mode & 0o067 else []
    for name in ("postgres", "socket"):
        path = home / name
        if path.exists() and path.stat().st_mode & 0o077:
            open_to_others.append(str(path))
    if open_to_others:
        yield Finding(
            "data directory",
            FAIL,
            f"{', '.join(open_to_others)} can be entered by others",
            f"chmod go-rwx {' '.join(open_to_others)}",
        )
    else:
        yield Finding("data directory", OK, f"{home}, private")


def _disk(settings: Settings) -> Iterator[Finding]:
    home = data_dir(settings).absolute()
    place = next(each for each in (home, *home.parents) if each.exists())
    usage = shutil.disk_usage(place)
    says = f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB at {place}"
    if usage.free < _LEAST_BYTES or usage.free < usage.total * _LEAST_SHARE:
        yield Finding("disk", WARN, says, "make room before PostgreSQL has to stop")
    else:
        yield Finding("disk", OK, says)


async def _weights(settings: Settings) -> Findings:
    if settings.embedding_url:
        return
    cache = data_dir(settings) / "models"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = await asyncio.to_thread(
                find_weights,
                settings.weights_dir,
                cache if cache.exists() else Path(scratch),
                hub=_NO_HUB,
            )
        except WeightsMissing:
            yield Finding(
                "weights",
                WARN,
                f"{MODEL} is not here; the first start downloads it (34 MB)",
                "or `uv sync --group weights`, or `weights_dir`, or `embedding_url`",
            )
        else:
            yield Finding("weights", OK, f"{MODEL}, {found.model}")


async def _embedders(settings: Settings) -> Findings:
    builtin = LazyBuiltin(settings.weights_dir, data_dir(settings) / "models")
    embedders = assemble(settings, builtin)
    try:
        if settings.embedding_url or await _has_weights(settings):
            yield await _embeds("embedder", embedders.configured(None))
        for name in settings.embedders:
            if name != BUILTIN:
                yield await _embeds(f"embedder {name}", embedders.configured(name))
    finally:
        await embedders.aclose()


async def _has_weights(settings: Settings) -> bool:
    # Else opening the model would fetch it.
    states = [each.state async for each in _weights(settings)]
    return states == [OK]


async def _embeds(name: str, embedder: Embedder) -> Finding:
    who = f"{embedder.identity.model} at {embedder.identity.endpoint}"
    try:
        # Twice: the built-in model is loaded by the first, which says nothing about its speed.
        await embedder.embed(["Good morning."], Purpose.QUERY, deadline=_PATIENCE / 3)
        began = time.perf_counter()
        [vector] = await embedder.embed(["Are you there?"], Purpose.QUERY, deadline=_PATIENCE / 3)
    except Failure as failure:
        return Finding(
            name,
            FAIL,
            f"{who} does not answer: {_said(failure)}",
            "until it does, memories are found by words only",
        )
    took = (time.perf_counter() - began) * 1000
    return Finding(name, OK, f"{who}, {len(vector)} dimensions, {took:.0f} ms")


async def _chats(settings: Settings) -> Findings:
    chats = assemble_chats(settings)
    try:
        if not chats.upstreams:
            says = f"{librarian.NAME}, which is no language model"
            yield Finding("chat", OK, f"{says}; RECOLLECT_CHAT_URL brings one")
        for name, route in chats.upstreams.items():
            url = settings.upstreams[name].url if name else settings.chat_url
            yield await _chats_at(f"chat {name}".rstrip(), shown(url or ""), route)
    finally:
        await chats.aclose()


async def _chats_at(name: str, where: str, route: Route) -> Finding:
    try:
        async with asyncio.timeout((_PATIENCE / 3).total_seconds()):
            told = await route.chat.get("/models")
        models = [each["id"] for each in told["data"]]
    except (TimeoutError, Failure) as error:
        said = _said(error) if isinstance(error, Failure) else "it is silent"
        todo = "check its address and its key; until it answers, chats fail and memories do not"
        return Finding(name, FAIL, f"{where} does not list its models: {said}", todo)
    except (LookupError, TypeError):
        todo = "does its address end as its maker says, mostly in `/v1`?"
        return Finding(name, WARN, f"{where} answers, but not with a list of models", todo)
    if route.model and route.model not in models:
        says = f"{where} does not list the model `{route.model}`"
        return Finding(name, WARN, says, f"it lists {', '.join(sorted(map(str, models))[:5])}")
    return Finding(name, OK, f"{route.model or 'any model'} at {where}, {len(models)} listed")


async def _database(settings: Settings) -> list[Finding]:
    """Every check that needs the database, on one connection."""
    if settings.database_url is None:
        home = data_dir(settings)
        if not home.exists() or not any(home.iterdir()):
            says = f"there is no house in {home} yet"
            return [Finding("database", WARN, says, "`recollect serve` makes one")]
    async with AsyncExitStack() as stack:
        try:
            began = time.perf_counter()
            database = await stack.enter_async_context(open_database(settings))
            db = await stack.enter_async_context(await connect(database.url))
            took = (time.perf_counter() - began) * 1000
            facts = await catalogue.facts(db)
        except Exception as error:  # noqa: BLE001 - no database is a finding
            return [Finding("database", FAIL, _said(error), _hint(settings))]
        where = shown(settings.database_url) if settings.database_url else "embedded"
        found = [Finding("database", OK, f"{where} answers in {took:.0f} ms")]
        for check, name in (
            (_aside(_versions(facts)), "versions"),
            (_aside(_tools(settings, database, facts)), "backup"),
            (_pooler(settings, db), "pooler"),
            (_aside(_clock(facts)), "clock"),
            (_aside(_role(facts)), "role"),
            (_migrations(database), "migrations"),
        ):
            found += await _isolated(name, check)
        if not any(each.check == "migrations" and each.state == OK for each in found):
            return found
        for look, name in (
            (_row_security, "row security"),
            (_vectors, "vectors"),
            (_queue, "jobs"),
            (_workspaces(settings), "workspaces"),
        ):
            found += await _isolated(name, _everywhere(db, look))
        return found


def _hint(settings: Settings) -> str:
    if settings.database_url:
        return f"check that `DATABASE_URL` ({shown(settings.database_url)}) is right"
    return f"its log is {data_dir(settings) / 'postgres.log'}"


def _versions(facts: Facts) -> Iterator[Finding]:
    is_new = facts.major >= OLDEST_POSTGRES
    todo = None if is_new else f"Recollect needs {OLDEST_POSTGRES} or newer"
    yield Finding("postgres", OK if is_new else FAIL, f"version {facts.version}", todo)
    if facts.vector is None:
        todo = f"as a superuser, in `{facts.database}`: CREATE EXTENSION vector;"
        yield Finding("pgvector", FAIL, "missing", todo)
    elif parsed(facts.vector) < OLDEST_VECTOR:
        todo = "install 0.8 or newer, then: ALTER EXTENSION vector UPDATE;"
        yield Finding("pgvector", FAIL, f"version {facts.vector}", todo)
    else:
        yield Finding("pgvector", OK, f"version {facts.vector}")
    if facts.trigram is None:
        todo = f"as a superuser, in `{facts.database}`: CREATE EXTENSION pg_trgm;"
        yield Finding("pg_trgm", FAIL, "missing", todo)
    else:
        yield Finding("pg_trgm", OK, f"version {facts.trigram}")


def _tools(settings: Settings, database: Database, facts: Facts) -> Iterator[Finding]:
    version = tool_version(restore_tools(database.bin_dir, settings.postgres_bin)) or "0"
    if parsed(version)[0] < facts.major:
        yield Finding(
            "backup",
            WARN,
            f"pg_dump {version} cannot read PostgreSQL {facts.version}",
            "name the directory of a newer one in RECOLLECT_POSTGRES_BIN",
        )
    else:
        yield Finding("backup", OK, f"pg_dump {version}")


async def _pooler(settings: Settings, db: Db) -> Findings:
    if not await is_pooled(db):
        return
    if settings.pgbouncer:
        yield Finding("pooler", OK, "stands between; no statement is prepared")
    else:
        todo = "RECOLLECT_PGBOUNCER=true in every process, unless each client keeps its session"
        yield Finding("pooler", WARN, "stands between, and `pgbouncer` is not set", todo)


def _clock(facts: Facts) -> Iterator[Finding]:
    skew = abs(time.time() - facts.clock_seconds)
    if skew > _MOST_SKEW_SECONDS:
        todo = "let both machines keep their time by NTP: expiry and leases depend on it"
        yield Finding("clock", WARN, f"{skew:.1f} s apart from the database's", todo)
    else:
        yield Finding("clock", OK, "agrees with the database's")


def _role(facts: Facts) -> Iterator[Finding]:
    powers = [
        name
        for name, has in (
            ("SUPERUSER", facts.is_superuser),
            ("BYPASSRLS", facts.bypasses_row_security),
        )
        if has
    ]
    if powers:
        yield Finding(
            "role",
            FAIL,
            f"`{facts.role}` is {' and '.join(powers)}: row-level security does not bind it",
            "connect as a role that owns the database and has neither",
        )
    else:
        yield Finding("role", OK, f"`{facts.role}`, bound by row-level security")


async def _migrations(database: Database) -> Findings:
    missing = await pending(database.url)
    async with await connect(database.url) as db:
        newest = 0 if len(missing) == len(migrations()) else await catalogue.newest_migration(db)
    if newest > max(each.number for each in migrations()):
        says = f"the database is at {newest}, newer than this Recollect"
        yield Finding("migrations", FAIL, says, "upgrade Recollect here")
    elif missing:
        says = f"{len(missing)} pending, the first is {missing[0]}"
        yield Finding("migrations", WARN, says, "`recollect migrate`; `serve` does it too")
    else:
        yield Finding("migrations", OK, f"at {newest}, none pending")


Look = Callable[[Db], Awaitable[Finding]]


async def _everywhere(db: Db, look: Look) -> Findings:
    async with db.transaction():
        await catalogue.see_all(db)
        yield await look(db)


async def _row_security(db: Db) -> Finding:
    bare = await catalogue.unprotected_tables(db)
    if bare:
        todo = f"ALTER TABLE {bare[0]} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
        return Finding("row security", FAIL, f"not forced on {', '.join(bare)}", todo)
    return Finding("row security", OK, "enabled and forced on every data table")


async def _vectors(db: Db) -> Finding:
    lacking, wanted = await catalogue.without_vector(db)
    if lacking:
        says = f"{lacking:,} of {wanted:,} memories have none yet"
        return Finding("vectors", WARN, says, "a worker fills them; `recollect reembed` shows how")
    return Finding("vectors", OK, f"all {wanted:,} memories have theirs")


async def _queue(db: Db) -> Finding:
    depths = {each.status: each for each in await jobs.depth(db)}
    buried, waiting = depths.get("buried"), depths.get("pending")
    if buried:
        todo = "`recollect jobs list --status buried` shows why, `recollect jobs retry` tries again"
        return Finding("jobs", WARN, f"{buried.count:,} buried", todo)
    if waiting and waiting.oldest and utc_now() - waiting.oldest > _MOST_WAITING:
        says = f"{waiting.count:,} waiting, one of them since {waiting.oldest:%Y-%m-%d %H:%M}"
        return Finding("jobs", WARN, says, "start `recollect serve` or `recollect work`")
    return Finding("jobs", OK, f"{waiting.count if waiting else 0} waiting, none buried")


def _workspaces(settings: Settings) -> Look:
    async def look(db: Db) -> Finding:
        found = await identity.workspaces(db)
        known = {None, BUILTIN, *settings.embedders}
        lost = [each for each in found if each.embedder not in known]
        if lost:
            first = lost[0]
            says = f"`{first.name}` names the embedder `{first.embedder}`, which is not configured"
            todo = f"add [embedders.{first.embedder}] to recollect.toml"
            return Finding("workspaces", FAIL, says, todo)
        return Finding("workspaces", OK, f"{len(found)}, each with an embedder")

    return look
