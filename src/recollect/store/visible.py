"""Who sees which memory and which thread: the one place that decides it, for every statement.

A statement that reads memories as `m` says `VISIBLE` and takes its values from `visible_to`; one
that must also meet what has ended (a place in a list, a row to lock) says `IN_SIGHT`. The rows of
`memory_vector` carry the same columns. Threads, as `t`, have `THREAD_IN_SIGHT`, documents, as `d`,
`DOCUMENT_IN_SIGHT`.
"""

from datetime import datetime
from typing import Any

from recollect.domain import CURRENT, Caller, View

# The projects whose member the caller is, asked of the tables: who was removed sees nothing more.
OWN_PROJECTS = """
    SELECT own.project_id FROM project_member own
    JOIN project known ON known.workspace_id = own.workspace_id AND known.id = own.project_id
    WHERE own.workspace_id = %(workspace_id)s AND own.user_id = %(user_id)s
        AND known.archived_at IS NULL
"""

# By scope and membership. Most memories are everybody's in the workspace or of a chat, so these
# come first: each scope asked about in vain takes 0.1 ms of 10,000 rows. The projects are an array,
# asked for once and only when a memory is some project's: a count of 20,000 took 18.9 ms so, and
# 21.6 as a subquery (`bench.isolation_cost` asks the same).
IN_SIGHT = f"""
    CASE m.scope
        WHEN 'workspace' THEN %(is_home)s
        WHEN 'thread' THEN m.thread_id = %(in_thread)s
        WHEN 'global' THEN m.user_id = %(user_id)s
        WHEN 'project' THEN CASE
            WHEN %(in_project)s::uuid IS NULL THEN m.project_id = ANY(ARRAY({OWN_PROJECTS}))
            ELSE m.project_id = %(in_project)s END
        WHEN 'agent' THEN m.agent_id = %(in_agent)s
    END
"""

# And alive: not forgotten, not past its time, and true at the time asked about; all of history on
# request.
VISIBLE = f"""
    m.deleted_at IS NULL
    AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
    AND (%(history)s OR (
        (m.valid_from IS NULL OR m.valid_from <= %(as_of)s)
        AND (m.valid_until IS NULL OR m.valid_until > %(as_of)s)))
    AND ({IN_SIGHT})
"""

# What a memory's scope is of; the workspace itself where it is everybody's. By CASE: row-level
# security uses no index over `coalesce`, which counts as a function that may leak.
PLACE = """
    CASE m.scope
        WHEN 'global' THEN m.user_id
        WHEN 'project' THEN m.project_id
        WHEN 'agent' THEN m.agent_id
        WHEN 'thread' THEN m.thread_id
        ELSE m.workspace_id
    END
"""

# All places that are in sight: a memory is by `IN_SIGHT` if its place is one of these. For tables
# that carry the place alone, such as the postings.
PLACES = f"""
    ARRAY(
        SELECT unnest(ARRAY[
            CASE WHEN %(is_home)s THEN %(workspace_id)s::uuid END,
            %(user_id)s::uuid, %(in_project)s::uuid, %(in_agent)s::uuid, %(in_thread)s::uuid
        ])
        UNION ALL
        SELECT mine.project_id FROM ({OWN_PROJECTS}) AS mine
        WHERE %(in_project)s::uuid IS NULL
    )
"""

# A thread is everybody's in its workspace, unless it is of a project: then its members', and in
# any case whose it is.
THREAD_IN_SIGHT = f"""
    ((t.project_id IS NULL AND %(is_home)s)
     OR t.user_id = %(user_id)s
     OR t.project_id IN ({OWN_PROJECTS}))
"""

# A document is seen as a thread is; until all of it has arrived it is not there.
DOCUMENT_IN_SIGHT = f"""
    d.status <> 'uploading'
    AND ((d.project_id IS NULL AND %(is_home)s)
         OR d.user_id = %(user_id)s
         OR d.project_id IN ({OWN_PROJECTS}))
"""


def in_sight_of(caller: Caller) -> dict[str, Any]:
    """The values that the predicates of sight name, and the workspace."""
    return {
        "workspace_id": caller.workspace_id,
        "user_id": caller.user_id,
        "is_home": not caller.is_visiting,
        "in_project": caller.project_id,
        "in_agent": caller.agent_id,
        "in_thread": caller.thread_id,
    }


def visible_to(caller: Caller, now: datetime, view: View = CURRENT) -> dict[str, Any]:
    """The values `VISIBLE` names, and the workspace."""
    return in_sight_of(caller) | {
        "now": now,
        "as_of": view.as_of or now,
        "history": view.is_history,
    }
