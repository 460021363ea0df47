"""`recollect agent`: programs that talk, and have memories of their own."""

import argparse
from collections.abc import Mapping

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.domain import ProjectId
from recollect.engine import circles
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.erase import Erased
from recollect.engine.erase_targets import Kind
from recollect.store.projects import Agent


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
    projects = {
        each.id: each.name for each, _ in await circles.list_projects(engine, _where(asked))
    }
    rows = [
        (each.id, each.name, _of(each, projects), state(each.archived_at))
        for each in await circles.list_agents(engine, _where(asked))
    ]
    return table(("ID", "NAME", "PROJECT", "STATE"), rows)


def _of(agent: Agent, projects: Mapping[ProjectId, str]) -> str:
    return projects[agent.project_id] if agent.project_id else "-"


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    where = _where(asked)
    return str(await circles.create_agent(engine, where, asked.name, project=asked.project))


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.rename_agent(engine, _where(asked), asked.agent, asked.name)
    return "renamed"


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.archive_agent(engine, _where(asked), asked.agent, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.archive_agent(engine, _where(asked), asked.agent, is_over=False)
    return "restored"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await circles.delete_circle(
        engine, _where(asked), Kind.AGENT, asked.agent, is_dry=is_dry
    )


def _where(asked: argparse.Namespace) -> Where:
    return Where(asked.workspace)
