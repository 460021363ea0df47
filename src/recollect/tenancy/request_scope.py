"""The project, agent or thread that a request names, and the check that the caller may use it.

A caller without access gets `NotFound`. Naming a thread also selects its project and agent.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from recollect.conversations.queries import threads
from recollect.core.domain import Caller, ProjectId, Ref
from recollect.core.errors import NotFound
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy.queries import projects


@dataclass(frozen=True, slots=True)
class RequestScope:
    """The project, agent and thread that a request names; None where it names none."""

    project: UUID | None = None
    # An id or a name.
    agent: str | None = None
    thread: Ref | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the request names nothing."""
        return self == RequestScope()


async def narrow_caller(engine: Engine, caller: Caller, context: RequestScope) -> Caller:
    """Limit the caller to what the request names; raise `NotFound` for what they cannot access."""
    if context.is_empty:
        return caller
    async with engine.reading(caller) as db:
        caller = await _in_thread(engine, db, caller, context.thread)
        caller = await _in_project(db, caller, context.project)
        return await _in_agent(db, caller, context.agent)


async def _in_thread(engine: Engine, db: Db, caller: Caller, ref: Ref | None) -> Caller:
    if ref is None:
        return caller
    thread = await threads.find(db, caller, ref, engine.now())
    if thread is None:
        raise NotFound("session")
    return replace(
        caller, thread_id=thread.id, project_id=thread.project_id, agent_id=thread.agent_id
    )


async def _in_project(db: Db, caller: Caller, project_id: UUID | None) -> Caller:
    if project_id is None or project_id == caller.project_id:
        return caller
    # The caller is in a thread of another project, or of no project.
    if caller.thread_id or not await projects.is_member(db, caller, project_id):
        raise NotFound("project")
    return replace(caller, project_id=ProjectId(project_id))


async def _in_agent(db: Db, caller: Caller, wanted: str | None) -> Caller:
    if wanted is None:
        return caller
    agent = await projects.find_usable_agent(db, caller, wanted)
    if agent is None or (caller.thread_id and caller.agent_id != agent.id):
        raise NotFound("agent")
    return replace(caller, agent_id=agent.id)
