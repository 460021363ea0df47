"""`recollect mcp`: the memory tools for one MCP client, on standard input and output."""

import argparse
import sys

from recollect.cli.arguments import Commands, add_command
from recollect.compose import open_database, open_engine, warm
from recollect.domain import Caller
from recollect.doors.tools.mcp_server import mcp_server
from recollect.doors.tools.mcp_stdio import speak
from recollect.engine.core import Engine
from recollect.engine.keys import move_in, operator
from recollect.errors import Invalid
from recollect.server import Server
from recollect.settings import Settings, take_key
from recollect.store.migrate import migrate


def add(commands: Commands) -> None:
    """Add the arguments of `mcp`."""
    parser = add_command(
        commands,
        "mcp",
        about="Offer the memory tools to the MCP client that starts this command. The key comes "
        "from RECOLLECT_KEY. Without one, and without DATABASE_URL, it acts as the operator in the "
        "default workspace of the embedded database. It works beside a running server.",
        example="recollect mcp\nRECOLLECT_KEY=rk_... recollect mcp",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Serve until the client closes our standard input."""
    key = take_key()
    if key is None and settings.database_url:
        raise Invalid("`RECOLLECT_KEY` is not set. Make a key with `recollect key create`.")
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            await _move_in(engine)
            await warm(engine)
            # Not for its doors: for the worker and the news of revoked keys that run beside it.
            server = Server(settings, engine)

            async def whoever_started_us() -> Caller:
                return await operator(engine) if key is None else await server.ring.recognise(key)

            await whoever_started_us()  # a wrong key is told at once, and not in the first answer
            async with server.running():
                await speak(mcp_server(engine, whoever_started_us))
    return 0


async def _move_in(engine: Engine) -> None:
    admin = await move_in(engine)
    if admin:
        print(f"first sign-in: {admin.login} / {admin.password}", file=sys.stderr)
