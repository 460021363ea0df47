"""What a request is about: a project, an agent or a thread that it names, if the caller may.

Whoever may not is told that there is no such thing. A thread brings its project and agent along.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from recollect.domain import Caller, ProjectId, Ref
from recollect.engine.core import Engine
from recollect.errors import NotFound
from recollect.store import projects, threads
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Context:
    """The names in a request; None names nothing."""

    project: UUID | None = None
    # By id or name.
    agent: str | None = None
    thread: Ref | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is named."""
        return self == Context()


async def enter(engine: Engine, caller: Caller, context: Context) -> Caller:
    """The caller inside what the request names; raise `NotFound` for what they may not name."""
    if context.is_open:
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
    # A thread of another project, or of none, is not in this one.
    if caller.thread_id or not await projects.is_member(db, caller, project_id):
        raise NotFound("project")
    return replace(caller, project_id=ProjectId(project_id))


async def _in_agent(db: Db, caller: Caller, wanted: str | None) -> Caller:
    if wanted is None:
        return caller
    agent = await projects.find_agent(db, caller, wanted)
    if agent is None or (caller.thread_id and caller.agent_id != agent.id):
        raise NotFound("agent")
    return replace(caller, agent_id=agent.id)
