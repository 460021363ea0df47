"""`recollect agent`: create, list, rename, archive and delete agents."""

import argparse
from collections.abc import Mapping

from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, state_label
from recollect.core.domain import ProjectId
from recollect.engine import Engine
from recollect.portability import tenant_deletion
from recollect.portability.erasure import Erased
from recollect.portability.erasure_targets import ErasureKind
from recollect.tenancy import projects
from recollect.tenancy.projects import InWorkspace
from recollect.tenancy.queries.projects import Agent


def add(commands: Commands) -> None:
    """Add the arguments of `agent`."""
    verbs = Verbs(
        commands,
        "agent",
        about="A memory of scope `agent` is visible to requests that name its agent or one of the "
        "agent's sessions.",
        example="recollect agent create support\nrecollect agent create scribe --project apollo",
    )
    create = verbs.add("create", "Create an agent.", _create, "name")
    create.add_argument(
        "--project", help="name or id of a project: only its members may use the agent"
    )
    every = [
        create,
        verbs.add("list", "Show the agents of a workspace.", _list),
        verbs.add("rename", "Rename an agent.", _rename, "agent", "name"),
        verbs.add("archive", "Archive an agent and its memories.", _archive, "agent"),
        verbs.add("restore", "Restore an archived agent.", _restore, "agent"),
        verbs.add_delete(_delete),
    ]
    for verb in every:
        verb.add_argument(
            "--workspace", help="name or id of the workspace (default: the default workspace)"
        )


async def _list(engine: Engine, args: argparse.Namespace) -> str:
    names = {each.id: each.name for each, _ in await projects.list_projects(engine, _where(args))}
    rows = [
        (each.id, each.name, _project_name(each, names), state_label(each.archived_at))
        for each in await projects.list_agents(engine, _where(args))
    ]
    return format_table(("ID", "NAME", "PROJECT", "STATE"), rows)


def _project_name(agent: Agent, names: Mapping[ProjectId, str]) -> str:
    return names[agent.project_id] if agent.project_id else "-"


async def _create(engine: Engine, args: argparse.Namespace) -> str:
    where = _where(args)
    return str(await projects.create_agent(engine, where, args.name, project=args.project))


async def _rename(engine: Engine, args: argparse.Namespace) -> str:
    await projects.rename_agent(engine, _where(args), args.agent, args.name)
    return "renamed"


async def _archive(engine: Engine, args: argparse.Namespace) -> str:
    await projects.archive_agent(engine, _where(args), args.agent, is_archived=True)
    return "archived"


async def _restore(engine: Engine, args: argparse.Namespace) -> str:
    await projects.archive_agent(engine, _where(args), args.agent, is_archived=False)
    return "restored"


async def _delete(engine: Engine, args: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - `Verbs` passes it by position
    return await tenant_deletion.delete_project_or_agent(
        engine, _where(args), ErasureKind.AGENT, args.agent, is_dry=is_dry
    )


def _where(args: argparse.Namespace) -> InWorkspace:
    return InWorkspace(args.workspace)
