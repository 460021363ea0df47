"""`recollect agent`: programs that talk, and have memories of their own."""

import argparse

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.engine import tenants
from recollect.engine.core import Engine
from recollect.engine.erase import Erased, Kind


def add(commands: Commands) -> None:
    """Add the arguments of `agent`."""
    verbs = Verbs(
        commands,
        "agent",
        about="A memory of scope `agent` is seen where its agent, or a session of it, is named.",
        example="recollect agent create support\nrecollect agent create scribe --project apollo",
    )
    create = verbs.add("create", "Make an agent known.", _create, "name")
    create.add_argument("--project", help="whose members alone may speak as it")
    every = [
        create,
        verbs.add("list", "Show the agents of a workspace.", _list),
        verbs.add("rename", "Give an agent another name.", _rename, "agent", "name"),
        verbs.add("archive", "Put an agent away with what it knows.", _archive, "agent"),
        verbs.add("restore", "Bring an archived agent back.", _restore, "agent"),
        verbs.add_delete(_delete),
    ]
    for verb in every:
        verb.add_argument("--workspace", help="name or id (default: the default one)")


async def _list(engine: Engine, asked: argparse.Namespace) -> str:
    rows = [
        (each.id, each.name, each.project_id or "-", state(each.archived_at))
        for each in await tenants.list_agents(engine, asked.workspace)
    ]
    return table(("ID", "NAME", "PROJECT", "STATE"), rows)


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    made = await tenants.create_agent(
        engine, asked.name, workspace=asked.workspace, project=asked.project
    )
    return str(made)


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.rename_agent(engine, asked.agent, asked.name, workspace=asked.workspace)
    return "renamed"


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_agent(engine, asked.agent, workspace=asked.workspace, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_agent(engine, asked.agent, workspace=asked.workspace, is_over=False)
    return "restored"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await tenants.delete_circle(
        engine,
        Kind.AGENT,
        asked.agent,
        workspace=asked.workspace,
        by="operator",
        is_dry=is_dry,
    )
