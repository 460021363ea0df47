"""The real `recollect` command in a process of its own, and what tests compare about a house."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli_forked import run_forked

from recollect.cli.arguments import SUMMARIES
from recollect.store import catalogue
from recollect.store.pool import connect
from tests.support.running import Running
from tests.support.waiting import wait_until

PATIENCE = 60

# Python may be told not to keep what it compiled; each command would then compile everything anew.
_COMPILED = tempfile.TemporaryDirectory(prefix="cli-compiled-")
FASTER = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _COMPILED.name}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """The caller's environment without anything that could configure Recollect or the driver."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RECOLLECT", "PG", "DATABASE_URL"))
    }
    return {**kept, **FASTER, "HOME": "/nonexistent", "RECOLLECT_LOG_LEVEL": "warning", **more}


def recollect(*arguments: object, cwd: Path = Path("/"), **more: str) -> Ran:
    """Run `recollect` to its end."""
    # Forked from a process that has imported the command already: the imports take a second, the
    # commands mostly a tenth of it. Servers and what is interrupted are started from nothing.
    with tempfile.TemporaryDirectory() as scratch:
        said = [Path(scratch, name) for name in ("out", "err")]
        words = [str(each) for each in arguments]
        process = _FORKS.Process(target=run_forked, args=(words, environment(**more), cwd, *said))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode is not None, f"`recollect {words}` does not end"
        ran = Ran(process.exitcode, *[each.read_text("utf-8") for each in said])
        process.close()
    assert "Traceback" not in ran.err, ran.err
    return ran


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([f"recollect.cli.{name}" for name in SUMMARIES])


def interrupt_once(holds: Callable[[], bool], *arguments: object, by: signal.Signals) -> Ran:
    """Run `recollect`, send it a signal once something holds, and see how it ends."""
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        _heeding(by),
        subprocess.Popen(
            [sys.executable, "-m", "recollect", *[str(each) for each in arguments]],
            stdout=out,
            stderr=err,
            cwd="/",
            env=environment(PYTHONUNBUFFERED="1"),
        ) as process,
    ):
        try:
            wait_until(holds, PATIENCE)
            process.send_signal(by)
            code = process.wait(PATIENCE)
        finally:
            process.kill()  # one that does not end must not hold up the rest
        out.seek(0)
        err.seek(0)
        return Ran(code, out.read(), err.read())


@contextmanager
def _heeding(by: signal.Signals) -> Generator[None]:
    """Let what is started meanwhile hear a signal.

    A shell has whatever it starts in the background ignore Ctrl-C, and all that comes of it.
    """
    before = signal.getsignal(by)
    if before is signal.SIG_IGN:
        signal.signal(by, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(by, before)


def processes(data_dir: Path) -> list[str]:
    """The servers and keepers of a data directory."""
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "command="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if f"{data_dir}/postgres" in line]


def copy(source: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", source, target], check=True)
    return target


def furnish(house: Running) -> None:
    """Put a bit of everything into a house."""
    with house.client() as http:
        opening = {"agent_id": "desk", "user_id": "ada", "initial_state": {"step": 1}}
        session = http.post("/v1/sessions", json=opening).raise_for_status().json()["id"]
        for number in range(3):
            turn = {
                "input": {"type": "text", "content": f"question {number}"},
                "output": {"type": "text", "content": f"answer\twith \\. odd\nlines {number}"},
            }
            http.post(f"/v1/sessions/{session}/turns", json=turn).raise_for_status()
        http.patch(f"/v1/sessions/{session}/state", json={"state": {"step": 2}})
        for text in (
            "Ada takes her tea without milk",
            "Grace flies to Oslo on 3 May",
            "The office closes at six\n\\.\nand the cat stays in",
            "日本語のメモも残る",
        ):
            made = http.post("/v1/memory", json={"session_id": session, "content": text})
            made.raise_for_status()


def answers(house: Running) -> list[Any]:
    """What the interface says about everything in a house."""
    with house.client() as http:
        sessions = http.get("/v1/sessions").json()
        found = [http.get("/v1/memories", params={"limit": 100}).json(), sessions]
        for query in ("what does Ada drink?", "Oslo", "cat"):
            ask = {"query": query, "threshold": 0}
            found.append(http.post("/v1/memories/search", json=ask).json())
        found += [
            http.get(f"/v1/sessions/{session['id']}/{part}").json()
            for session in sessions["data"]
            for part in ("turns", "state", "state/history")
        ]
        return found


def contents(url: str) -> dict[str, str]:
    """What stands in each table of a database, in short."""

    async def look() -> dict[str, str]:
        async with await connect(url) as db, db.transaction():
            await catalogue.see_all(db)
            return await catalogue.contents(db, await catalogue.tables(db))

    return asyncio.run(look())
