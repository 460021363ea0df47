"""`recollect mcp`: serve the memory tools to one MCP client on standard input and output."""

import argparse
import sys

from recollect.api.tools.mcp_server import mcp_server
from recollect.api.tools.mcp_stdio import serve_stdio
from recollect.cli.arguments import Commands, add_command
from recollect.compose import open_database, open_engine, warm_up
from recollect.core.domain import Caller
from recollect.core.errors import Invalid
from recollect.core.settings import Settings, take_key
from recollect.db.migrate import migrate
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import first_run, operator_caller


def add(commands: Commands) -> None:
    """Add the arguments of `mcp`."""
    parser = add_command(
        commands,
        "mcp",
        about="Serve the memory tools to the MCP client that starts this command. The API key is "
        "read from RECOLLECT_KEY. With neither RECOLLECT_KEY nor DATABASE_URL set, it acts as the "
        "operator in the default workspace of the embedded database. It can run next to a server.",
        example="recollect mcp\nRECOLLECT_KEY=rk_... recollect mcp",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Serve until the client closes standard input."""
    key = take_key()
    if key is None and settings.database_url:
        raise Invalid("`RECOLLECT_KEY` is not set. Create a key with `recollect key create`.")
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            await _create_first_admin(engine)
            await warm_up(engine)
            # Used for its worker and its notifications of revoked keys, not for its HTTP
            # interfaces.
            server = Server(settings, engine)

            async def identify_caller() -> Caller:
                return (
                    await operator_caller(engine)
                    if key is None
                    else await server.key_cache.recognise(key)
                )

            await identify_caller()  # report a wrong key now, not in the first response
            async with server.running():
                await serve_stdio(mcp_server(engine, identify_caller))
    return 0


async def _create_first_admin(engine: Engine) -> None:
    admin = await first_run(engine)
    if admin:
        print(f"first sign-in: {admin.login} / {admin.password}", file=sys.stderr)
