"""`recollect mcp`: the tools over standard input and output."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from recollect.core.domain import Caller
from recollect.core.settings import take_key
from recollect.engine import Engine
from recollect.tenancy.keys import revoke_key
from tests.support.instance import key_for
from tests.support.pgbouncer import uses_pgbouncer
from tests.support.tools import OverMcp, ToolRefused, memory_row, recall, save_memory

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if "RECOLLECT" not in name}
    inherited.pop("DATABASE_URL", None)
    inherited["RECOLLECT_PGBOUNCER"] = str(uses_pgbouncer())
    return inherited | {"RECOLLECT_LOG_LEVEL": "info", "RECOLLECT_LOG_FORMAT": "json"} | more


@asynccontextmanager
async def started(mode: str = "auto", **more: str) -> AsyncGenerator[tuple[OverMcp, Path]]:
    """Start a server process; yield the official client and the path of the log."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "recollect", "mcp"], env=environment(**more)
    )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        with log.open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
                yield OverMcp(client), log


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_R242_R257_R273_S98_the_tools_work_on_stdio_with_a_key(
    engine: Engine, caller: Caller, database_url: str, mode: str
) -> None:
    key = await key_for(engine, caller.workspace_id)

    async with started(mode, DATABASE_URL=database_url, RECOLLECT_KEY=key) as (tools, log):
        listed = [tool.name for tool in (await tools.client.list_tools()).tools]
        old = await save_memory(tools, "Ana lives in Oslo", channel_id="#ana")
        await save_memory(
            tools,
            "Ana lives in Bergen",
            associations=[{"target_id": old, "relation_type": "updates"}],
        )
        found = await tools.call("memory_recall", query="Where does Ana live?")
        deleted = await tools.call("memory_delete", memory_id=old, reason="she moved")
        with pytest.raises(ToolRefused, match="`content` is required"):
            await tools.call("memory_save")
        with pytest.raises(ToolRefused, match="NUL"):
            await tools.call("memory_save", content="a\0b")
        resource = await tools.client.read_resource(f"memory://{found['memories'][0]['id']}")
        logged = log.read_text("utf-8")

    assert listed == ["memory_save", "memory_recall", "memory_delete"]
    assert [each["content"] for each in found["memories"]] == ["Ana lives in Bergen"]
    assert deleted == {"forgotten": True, "message": "Forgotten: Ana lives in Oslo"}
    assert len(resource.contents) == 1
    assert (await memory_row(engine, old))["workspace_id"] == str(caller.workspace_id)
    assert key not in logged
    assert "Bergen" not in logged


async def test_a_revoked_key_stops_working_at_once(
    engine: Engine, caller: Caller, database_url: str
) -> None:
    key = await key_for(engine, caller.workspace_id, name="old laptop")

    async with started(DATABASE_URL=database_url, RECOLLECT_KEY=key) as (tools, _):
        await save_memory(tools, "The gate code is 4711")
        await revoke_key(engine, "old laptop")
        with pytest.raises(ToolRefused, match="expired or was revoked"):
            async with asyncio.timeout(20):
                while True:
                    await recall(tools, mode="recent")


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (None, "`RECOLLECT_KEY` is not set"),
        ("", "`RECOLLECT_KEY` is not set"),
        ("rk_00000000_wrong", "This key is unknown"),
    ],
)
def test_an_external_database_needs_a_valid_key(
    database_url: str, key: str | None, complaint: str
) -> None:
    given = {} if key is None else {"RECOLLECT_KEY": key}

    process = subprocess.run(
        [sys.executable, "-m", "recollect", "mcp"],
        input=b"",
        capture_output=True,
        env=environment(DATABASE_URL=database_url, **given),
        timeout=60,
        check=False,
    )

    assert process.returncode == 1
    assert f"recollect: {complaint}" in process.stderr.decode()
    assert process.stdout == b""


async def test_every_request_gets_a_reply_even_if_it_is_invalid(
    engine: Engine, caller: Caller, database_url: str
) -> None:
    key = await key_for(engine, caller.workspace_id)
    call = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"memory_save",%s}}'
    lines = [
        json.dumps(INITIALIZE),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        call % (2, r'"arguments":{"content":"cut in two: \ud83d"}'),
        "",
        "hello?",
        '{"jsonrpc":"2.0","id":3}',
        r'{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"\ud83d"}}',
        call % (4, r'"arguments":{"content":"whole: \ud83d\ude00"}'),
    ]

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "recollect", "mcp"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(DATABASE_URL=database_url, RECOLLECT_KEY=key),
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n".join([*lines, ""]).encode())
    async with asyncio.timeout(60):
        replies = [json.loads(await process.stdout.readline()) for _ in range(5)]
        process.stdin.close()
        rest, _ = await process.communicate()
    by_id = {each["id"]: each for each in replies}

    assert (process.returncode, rest) == (0, b"")
    assert set(by_id) == {1, 2, None, 3, 4}
    assert by_id[2]["result"]["isError"] is True
    assert "half of a surrogate pair" in by_id[2]["result"]["content"][0]["text"]
    assert by_id[None]["error"] == {"code": -32700, "message": "The body is not valid JSON."}
    assert by_id[3]["error"]["code"] == -32600
    assert by_id[4]["result"]["structuredContent"]["success"] is True


def test_S98_the_key_is_removed_from_the_environment() -> None:
    variables = {"RECOLLECT_KEY": "rk_1", "HOME": "/home/ada"}

    assert take_key(variables) == "rk_1"
    assert variables == {"HOME": "/home/ada"}
    assert take_key(variables) is None


@pytest.fixture
def data_dir() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="data-", dir="/tmp") as base:
        Path(base).chmod(0o711)  # a test run as root starts PostgreSQL as another user
        yield Path(base) / "data"


@pytest.mark.slow
def test_S98_the_embedded_server_needs_no_key_and_stdout_is_protocol_only(
    data_dir: Path,
) -> None:
    messages: list[dict[str, Any]] = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "memory_save", "arguments": {"content": "Tea at four"}},
        },
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect", "mcp", "--data-dir", str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin
    assert process.stdout

    replies: list[bytes] = []
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        if "id" in message:
            replies.append(process.stdout.readline())
    rest, errors = process.communicate(timeout=60)

    assert [json.loads(each)["id"] for each in replies] == [1, 2]
    assert json.loads(replies[1])["result"]["structuredContent"]["success"] is True
    assert rest == b""
    assert process.returncode == 0
    assert b"first sign-in: admin / " in errors
    assert b"Tea at four" not in errors
