"""`recollect doctor`: check every part of an installation and suggest fixes."""

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
from recollect.cli.urls import hide_password
from recollect.compose import Database, data_dir, open_database
from recollect.core.domain import utc_now
from recollect.core.errors import Failure, Unavailable
from recollect.core.logging import configure_logging
from recollect.core.settings import DEFAULT_FILE, Settings, named_file
from recollect.db import catalog, job_queue
from recollect.db.catalog import DatabaseFacts
from recollect.db.migrate import LAST_UNSQUASHED_COMMIT, schema_state
from recollect.db.pool import Db, connect, is_pooled
from recollect.learning.inbox import backlog, describe_delay
from recollect.models import librarian
from recollect.models.chat_model import ChatRoute
from recollect.models.embedder import Embedder, Purpose
from recollect.models.from_settings import BUILTIN, make_chat_models, make_embedders
from recollect.models.lazy_embedder import LazyEmbedder
from recollect.models.weights import MODEL, WeightsMissing, find_weights
from recollect.portability.dump import (
    MIN_POSTGRES,
    MIN_VECTOR,
    find_restore_tools,
    parse_version,
    tool_version,
)
from recollect.tenancy.queries import workspaces as workspaces_queries

OK, WARN, FAIL = "ok", "warn", "FAIL"

_TIMEOUT = timedelta(seconds=15)
_MIN_FREE_BYTES = 1_000_000_000
_MIN_FREE_SHARE = 0.05
_MAX_SKEW_SECONDS = 2.0
_MAX_QUEUE_AGE = timedelta(minutes=10)
# A check must not download 34 MB of weights, so the hub is a port on which nothing listens.
_NO_HUB = "http://127.0.0.1:9/"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and how to fix a problem."""

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
        about="Check settings, database, embedder, vectors, jobs, disk, clock and permissions. "
        "Prints one line per check, with a fix for each problem. Changes nothing and can run next "
        "to a server. Exits with 1 if a check FAILs.",
        example="recollect doctor\n"
        "recollect doctor --json | jq '.checks[] | select(.state != \"ok\")'",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run, without_settings=report_settings)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Run every check and print a report."""
    configure_logging("error", settings.log_format)  # the report already has the details
    return _report(await examine(settings, named_file(args.config) or DEFAULT_FILE), args)


async def examine(settings: Settings, file: Path) -> list[Finding]:
    """Return the findings of every check, in order; never raises."""
    found = [Finding("settings", OK, "read")]
    for check, name in (
        (_as_async(_settings_file(settings, file)), "settings file"),
        (_as_async(_address(settings)), "address"),
        (_as_async(_directory(settings)), "data directory"),
        (_as_async(_disk(settings)), "disk"),
        (_weights(settings), "weights"),
        (_embedders(settings), "embedder"),
        (_chats(settings), "chat"),
    ):
        found += await _isolated(name, check)
    return found + await _database(settings)


def report_settings(failure: Failure, args: argparse.Namespace) -> int:
    """Report that the settings are invalid; without settings no other check can run."""
    todo = "correct it in the environment or in recollect.toml"
    return _report([Finding("settings", FAIL, failure.message, todo)], args)


def _report(found: list[Finding], args: argparse.Namespace) -> int:
    is_healthy = all(each.state != FAIL for each in found)
    if args.json:
        print(json.dumps({"ok": is_healthy, "checks": [asdict(each) for each in found]}, indent=2))
        return 0 if is_healthy else 1
    for each in found:
        todo = f" -> {each.todo}" if each.todo else ""
        print(f"{each.state:<5} {each.check:<15} {each.says}{todo}")
    return 0 if is_healthy else 1


async def _isolated(name: str, check: Findings) -> list[Finding]:
    """Run one check and turn any error or timeout into a finding, so that the next check runs."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(_TIMEOUT.total_seconds()):
            async for each in check:
                found.append(each)  # noqa: PERF401 - keep findings made before a failure
    except TimeoutError:
        found.append(Finding(name, FAIL, f"no response within {_TIMEOUT.seconds} seconds"))
    except Exception as error:  # noqa: BLE001 - a failed check is a finding
        found.append(Finding(name, FAIL, _first_line(error)))
    return found


async def _as_async(found: Iterator[Finding]) -> Findings:
    for each in found:
        yield each


def _first_line(error: Exception) -> str:
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
            f"{path} may contain keys and other users can read it",
            f"chmod 600 {path}",
        )
    else:
        yield Finding("settings file", OK, str(path))


def _address(settings: Settings) -> Iterator[Finding]:
    address = f"{settings.host}:{settings.port}"
    try:
        is_local = ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
    if is_local:
        yield Finding("address", OK, f"{address}, this machine only")
    else:
        yield Finding(
            "address",
            WARN,
            f"{address} can be reached from other machines over plain http",
            "put an https proxy in front of it, or bind to 127.0.0.1",
        )


def _directory(settings: Settings) -> Iterator[Finding]:
    home = data_dir(settings)
    if settings.database_url or not home.exists():
        return
    # When root runs the server, the server's group may enter the directory but not list or write
    # it.
    open_to_others = [str(home)] if home.stat().st_mode & 0o067 else []
    for name in ("postgres", "socket"):
        path = home / name
        if path.exists() and path.stat().st_mode & 0o077:
            open_to_others.append(str(path))
    if open_to_others:
        yield Finding(
            "data directory",
            FAIL,
            f"other users can access {', '.join(open_to_others)}",
            f"chmod go-rwx {' '.join(open_to_others)}",
        )
    else:
        yield Finding("data directory", OK, f"{home}, private")


def _disk(settings: Settings) -> Iterator[Finding]:
    home = data_dir(settings).absolute()
    existing = next(each for each in (home, *home.parents) if each.exists())
    usage = shutil.disk_usage(existing)
    says = f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB at {existing}"
    if usage.free < _MIN_FREE_BYTES or usage.free < usage.total * _MIN_FREE_SHARE:
        yield Finding("disk", WARN, says, "free some space: PostgreSQL stops when the disk is full")
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
                f"{MODEL} is not installed; the first start downloads it (34 MB)",
                "to avoid that: `uv sync --group weights`, or set `weights_dir` or `embedding_url`",
            )
        else:
            yield Finding("weights", OK, f"{MODEL}, {found.model}")


async def _embedders(settings: Settings) -> Findings:
    builtin = LazyEmbedder(settings.weights_dir, data_dir(settings) / "models")
    embedders = make_embedders(settings, builtin)
    try:
        if settings.embedding_url or await _has_weights(settings):
            yield await _check_embedder("embedder", embedders.configured(None))
        for name in settings.embedders:
            if name != BUILTIN:
                yield await _check_embedder(f"embedder {name}", embedders.configured(name))
    finally:
        await embedders.aclose()


async def _has_weights(settings: Settings) -> bool:
    # Without this check, opening the model would download it.
    states = [each.state async for each in _weights(settings)]
    return states == [OK]


async def _check_embedder(name: str, embedder: Embedder) -> Finding:
    model = f"{embedder.identity.model} at {embedder.identity.endpoint}"
    try:
        # The first call loads the built-in model, so only the second one is timed.
        await embedder.embed(["Good morning."], Purpose.QUERY, deadline=_TIMEOUT / 3)
        began = time.perf_counter()
        [vector] = await embedder.embed(["Are you there?"], Purpose.QUERY, deadline=_TIMEOUT / 3)
    except Failure as failure:
        return Finding(
            name,
            FAIL,
            f"{model} does not respond: {_first_line(failure)}",
            "check that it runs; until then, search uses keywords only",
        )
    took = (time.perf_counter() - began) * 1000
    return Finding(name, OK, f"{model}, {len(vector)} dimensions, {took:.0f} ms")


async def _chats(settings: Settings) -> Findings:
    chats = make_chat_models(settings)
    try:
        if not chats.upstreams:
            says = f"{librarian.NAME}, which is not a language model"
            yield Finding("chat", OK, f"{says}; set RECOLLECT_CHAT_URL to use one")
        for name, route in chats.upstreams.items():
            url = settings.upstreams[name].url if name else settings.chat_url
            yield await _check_chat(f"chat {name}".rstrip(), hide_password(url or ""), route)
    finally:
        await chats.aclose()


async def _check_chat(name: str, where: str, route: ChatRoute) -> Finding:
    try:
        async with asyncio.timeout((_TIMEOUT / 3).total_seconds()):
            response = await route.chat.get("/models")
        models = [each["id"] for each in response["data"]]
    except (TimeoutError, Failure) as error:
        reason = _first_line(error) if isinstance(error, Failure) else "no response"
        todo = "check its address and key; until it responds, chats fail but memories still work"
        return Finding(name, FAIL, f"{where} does not list its models: {reason}", todo)
    except (LookupError, TypeError):
        todo = "check the address; most providers' addresses end in `/v1`"
        return Finding(name, WARN, f"{where} responds, but not with a list of models", todo)
    if route.model and route.model not in models:
        says = f"{where} does not list the model `{route.model}`"
        return Finding(name, WARN, says, f"it lists {', '.join(sorted(map(str, models))[:5])}")
    return Finding(name, OK, f"{route.model or 'any model'} at {where}, {len(models)} listed")


async def _database(settings: Settings) -> list[Finding]:
    """Run every check that needs the database, on one connection."""
    if settings.database_url is None:
        home = data_dir(settings)
        if not home.exists() or not any(home.iterdir()):
            says = f"there is no Recollect data in {home} yet"
            return [Finding("database", WARN, says, "`recollect serve` creates it")]
    async with AsyncExitStack() as stack:
        try:
            began = time.perf_counter()
            database = await stack.enter_async_context(open_database(settings))
            db = await stack.enter_async_context(await connect(database.url))
            took = (time.perf_counter() - began) * 1000
            facts = await catalog.facts(db)
        except Exception as error:  # noqa: BLE001 - no database is a finding
            return [Finding("database", FAIL, _first_line(error), _hint(settings))]
        where = hide_password(settings.database_url) if settings.database_url else "embedded"
        found = [Finding("database", OK, f"{where}, responds in {took:.0f} ms")]
        for check, name in (
            (_as_async(_versions(facts)), "versions"),
            (_as_async(_tools(settings, database, facts)), "backup"),
            (_pooler(settings, db), "pooler"),
            (_as_async(_clock(facts)), "clock"),
            (_as_async(_role(facts)), "role"),
            (_migrations(database), "migrations"),
        ):
            found += await _isolated(name, check)
        if not any(each.check == "migrations" and each.state == OK for each in found):
            return found
        for check_workspaces, name in (
            (_row_security, "row security"),
            (_vectors, "vectors"),
            (_queue, "jobs"),
            (_learning, "learning"),
            (_workspaces(settings), "workspaces"),
        ):
            found += await _isolated(name, _in_all_workspaces(db, check_workspaces))
        return found


def _hint(settings: Settings) -> str:
    if settings.database_url:
        return f"check that `DATABASE_URL` ({hide_password(settings.database_url)}) is correct"
    return f"see its log, {data_dir(settings) / 'postgres.log'}"


def _versions(facts: DatabaseFacts) -> Iterator[Finding]:
    is_new = facts.major >= MIN_POSTGRES
    todo = None if is_new else f"Recollect needs {MIN_POSTGRES} or newer"
    yield Finding("postgres", OK if is_new else FAIL, f"version {facts.version}", todo)
    if facts.vector is None:
        todo = f"as a superuser, in `{facts.database}`: CREATE EXTENSION vector;"
        yield Finding("pgvector", FAIL, "missing", todo)
    elif parse_version(facts.vector) < MIN_VECTOR:
        todo = "install 0.8 or newer, then: ALTER EXTENSION vector UPDATE;"
        yield Finding("pgvector", FAIL, f"version {facts.vector}", todo)
    else:
        yield Finding("pgvector", OK, f"version {facts.vector}")
    if facts.trigram is None:
        todo = f"as a superuser, in `{facts.database}`: CREATE EXTENSION pg_trgm;"
        yield Finding("pg_trgm", FAIL, "missing", todo)
    else:
        yield Finding("pg_trgm", OK, f"version {facts.trigram}")


def _tools(settings: Settings, database: Database, facts: DatabaseFacts) -> Iterator[Finding]:
    version = tool_version(find_restore_tools(database.bin_dir, settings.postgres_bin)) or "0"
    if parse_version(version)[0] < facts.major:
        yield Finding(
            "backup",
            WARN,
            f"pg_dump {version} cannot read PostgreSQL {facts.version}",
            "set RECOLLECT_POSTGRES_BIN to the directory of a newer one",
        )
    else:
        yield Finding("backup", OK, f"pg_dump {version}")


async def _pooler(settings: Settings, db: Db) -> Findings:
    if not await is_pooled(db):
        return
    if settings.pgbouncer:
        yield Finding("pooler", OK, "in use; prepared statements are off")
    else:
        todo = "set RECOLLECT_PGBOUNCER=true in every process, unless it pools whole sessions"
        yield Finding("pooler", WARN, "in use, but `pgbouncer` is not set", todo)


def _clock(facts: DatabaseFacts) -> Iterator[Finding]:
    skew = abs(time.time() - facts.clock_seconds)
    if skew > _MAX_SKEW_SECONDS:
        todo = "synchronise both machines with NTP: expiry and leases depend on the time"
        yield Finding("clock", WARN, f"differs from the database's clock by {skew:.1f} s", todo)
    else:
        yield Finding("clock", OK, "agrees with the database's clock")


def _role(facts: DatabaseFacts) -> Iterator[Finding]:
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
            f"`{facts.role}` is {' and '.join(powers)} and bypasses row-level security",
            "connect as a role that owns the database and has neither attribute",
        )
    else:
        yield Finding("role", OK, f"`{facts.role}`, subject to row-level security")


async def _migrations(database: Database) -> Findings:
    state = await schema_state(database.url)
    if state.is_newer:
        says = f"the database is at {state.newest}, newer than this Recollect"
        yield Finding("migrations", FAIL, says, "upgrade Recollect on this machine")
    elif state.is_too_old:
        says = "an older pre-release migrated the database"
        todo = f"run `recollect migrate` of commit `{LAST_UNSQUASHED_COMMIT}` first"
        yield Finding("migrations", FAIL, says, todo)
    elif state.pending:
        says = f"{len(state.pending)} pending, the first is {state.pending[0]}"
        yield Finding("migrations", WARN, says, "run `recollect migrate`; `serve` does this too")
    else:
        yield Finding("migrations", OK, f"at {state.newest}, none pending")


Check = Callable[[Db], Awaitable[Finding]]


async def _in_all_workspaces(db: Db, check: Check) -> Findings:
    async with db.transaction():
        await catalog.disable_row_security(db)
        yield await check(db)


async def _row_security(db: Db) -> Finding:
    unprotected = await catalog.unprotected_tables(db)
    if unprotected:
        todo = f"ALTER TABLE {unprotected[0]} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
        return Finding("row security", FAIL, f"not forced on {', '.join(unprotected)}", todo)
    return Finding("row security", OK, "enabled and forced on every data table")


async def _vectors(db: Db) -> Finding:
    lacking, wanted = await catalog.without_vector(db)
    if lacking:
        says = f"{lacking:,} of {wanted:,} memories have no vector yet"
        return Finding("vectors", WARN, says, "a worker adds them; `recollect reembed` does it now")
    return Finding("vectors", OK, f"all {wanted:,} memories have one")


async def _queue(db: Db) -> Finding:
    depths = {each.status: each for each in await job_queue.depth(db)}
    failed, queued = depths.get("failed"), depths.get("pending")
    if failed:
        todo = "`recollect jobs list --status failed` shows why; `recollect jobs retry` retries"
        return Finding("jobs", WARN, f"{failed.count:,} failed", todo)
    if queued and queued.oldest and utc_now() - queued.oldest > _MAX_QUEUE_AGE:
        says = f"{queued.count:,} queued, the oldest since {queued.oldest:%Y-%m-%d %H:%M}"
        return Finding("jobs", WARN, says, "start `recollect serve` or `recollect work`")
    return Finding("jobs", OK, f"{queued.count if queued else 0} queued, none failed")


async def _learning(db: Db) -> Finding:
    now = utc_now()
    found = await backlog(db, now)
    todo = "the log says why: `learning.deferred`, `background.failed`, `job.deferred`"
    if late := describe_delay(found, now):
        return Finding("learning", WARN, late, todo)
    if found.by_rules:
        were = "1 message of the last hour was"
        if found.by_rules > 1:
            were = f"{found.by_rules:,} messages of the last hour were"
        says = f"{were} learnt by rule: {found.reason}"
        return Finding("learning", WARN, says, "check the chat endpoint, its key and its model")
    return Finding("learning", OK, f"{found.pending:,} messages waiting, none for long")


def _workspaces(settings: Settings) -> Check:
    async def check(db: Db) -> Finding:
        found = await workspaces_queries.list_workspaces(db)
        known = {None, BUILTIN, *settings.embedders}
        misconfigured = [each for each in found if each.embedder not in known]
        if misconfigured:
            first = misconfigured[0]
            says = f"`{first.name}` uses the embedder `{first.embedder}`, which is not configured"
            todo = f"add [embedders.{first.embedder}] to recollect.toml"
            return Finding("workspaces", FAIL, says, todo)
        return Finding("workspaces", OK, f"{len(found)}, each with an embedder")

    return check
