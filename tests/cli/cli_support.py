"""Run the real `recollect` command in its own process, and read an instance's data to compare it."""

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

from recollect.cli.arguments import SUMMARIES, module_of
from recollect.db import catalog
from recollect.db.pool import connect
from tests.support.serve_process import ServeProcess
from tests.support.waiting import wait_until

TIMEOUT_SECONDS = 60

# If Python is configured not to write bytecode, each command would compile everything again.
_COMPILED = tempfile.TemporaryDirectory(prefix="cli-compiled-")
FASTER = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _COMPILED.name}


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished command: its exit code and output."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Return the environment without variables that could configure Recollect or the driver."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RECOLLECT", "PG", "DATABASE_URL"))
    }
    return {**kept, **FASTER, "HOME": "/nonexistent", "RECOLLECT_LOG_LEVEL": "warning", **more}


def recollect(*arguments: object, cwd: Path = Path("/"), **more: str) -> Ran:
    """Run `recollect` to its end."""
    # Forked from a process that has already imported the command: the imports take a second, most
    # commands a tenth of it. Servers and interrupted commands start as new processes.
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [Path(scratch, name) for name in ("out", "err")]
        words = [str(each) for each in arguments]
        process = _FORKS.Process(
            target=run_forked, args=(words, environment(**more), cwd, *outputs)
        )
        process.start()
        process.join(TIMEOUT_SECONDS)
        assert process.exitcode is not None, f"`recollect {words}` does not end"
        ran = Ran(process.exitcode, *[each.read_text("utf-8") for each in outputs])
        process.close()
    assert "Traceback" not in ran.err, ran.err
    return ran


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([module_of(name) for name in SUMMARIES])


def interrupt_once(condition: Callable[[], bool], *arguments: object, by: signal.Signals) -> Ran:
    """Run `recollect`, send it a signal once a condition is true, and return how it ended."""
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        _not_ignoring(by),
        subprocess.Popen(
            [sys.executable, "-m", "recollect", *[str(each) for each in arguments]],
            stdout=out,
            stderr=err,
            cwd="/",
            env=environment(PYTHONUNBUFFERED="1"),
        ) as process,
    ):
        try:
            wait_until(condition, TIMEOUT_SECONDS)
            process.send_signal(by)
            code = process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()  # a process that does not end must not block the other tests
        out.seek(0)
        err.seek(0)
        return Ran(code, out.read(), err.read())


@contextmanager
def _not_ignoring(by: signal.Signals) -> Generator[None]:
    """Make child processes started in this block receive a signal.

    A shell makes background processes, and their children, ignore Ctrl-C.
    """
    before = signal.getsignal(by)
    if before is signal.SIG_IGN:
        signal.signal(by, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(by, before)


def processes(data_dir: Path) -> list[str]:
    """Return the command lines of a data directory's servers and supervisors."""
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "command="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if f"{data_dir}/postgres" in line]


def copy(source: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", source, target], check=True)
    return target


def fill(instance: ServeProcess) -> None:
    """Save one of each kind of data."""
    with instance.client() as http:
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


def answers(instance: ServeProcess) -> list[Any]:
    """Return the responses of the interface about everything in an instance."""
    with instance.client() as http:
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
    """Return a digest of each table of a database."""

    async def read() -> dict[str, str]:
        async with await connect(url) as db, db.transaction():
            await catalog.disable_row_security(db)
            return await catalog.contents(db, await catalog.tables(db))

    return asyncio.run(read())
