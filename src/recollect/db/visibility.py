"""The visibility rules: which memories, threads and documents a caller may see.

Every statement that reads memories as `m` includes `VISIBLE`, with values from `visibility_values`.
A statement that must also find ended memories (a position in a list, a row to lock) includes
`IN_SCOPE` instead, with values from `scope_values`. The rows of `memory_vector` have the same
columns. Threads, as `t`, have `THREAD_VISIBLE`; documents, as `d`, have `DOCUMENT_VISIBLE`.
"""

from datetime import datetime
from typing import Any

from recollect.core.domain import CURRENT, Caller, View

# The projects of the caller, read from the tables, so that a removed member loses access at once.
OWN_PROJECTS = """
    SELECT own.project_id FROM project_member own
    JOIN project known ON known.workspace_id = own.workspace_id AND known.id = own.project_id
    WHERE own.workspace_id = %(workspace_id)s AND own.user_id = %(user_id)s
        AND known.archived_at IS NULL
"""

# By scope and membership. Most memories belong to the workspace or to a thread, so these scopes
# come first: each scope that does not match costs 0.1 ms per 10,000 rows. The projects are an
# array that is read once, and only if some memory belongs to a project: a count of 20,000 took
# 18.9 ms this way and 21.6 ms with a subquery (`bench.isolation_cost` measures it). The key/value
# interface does not see the rows of other users (R290). The planner folds that condition away; a
# cached plan evaluates it, and a count of 20,000 takes 2.9 ms instead of 2.8.
IN_SCOPE = f"""
    CASE m.scope
        WHEN 'workspace' THEN %(is_member)s AND (%(sees_others)s OR m.user_id = %(user_id)s)
        WHEN 'thread' THEN m.thread_id = %(in_thread)s
            AND (%(sees_others)s OR m.user_id = %(user_id)s)
        WHEN 'global' THEN m.user_id = %(user_id)s
        WHEN 'project' THEN CASE
            WHEN %(in_project)s::uuid IS NULL THEN m.project_id = ANY(ARRAY({OWN_PROJECTS}))
            ELSE m.project_id = %(in_project)s END
        WHEN 'agent' THEN m.agent_id = %(in_agent)s
    END
"""

# In scope and live: not forgotten, not expired, and valid at the requested time. With `history`,
# the validity does not matter.
VISIBLE = f"""
    m.deleted_at IS NULL
    AND (m.expires_at IS NULL OR m.expires_at > %(now)s)
    AND (%(history)s OR (
        (m.valid_from IS NULL OR m.valid_from <= %(as_of)s)
        AND (m.valid_until IS NULL OR m.valid_until > %(as_of)s)))
    AND ({IN_SCOPE})
"""

# The owner of a memory's scope; the workspace itself if all members see it. Uses CASE: under
# row-level security no index works over `coalesce`, which counts as a leaky function.
SCOPE_OWNER = """
    CASE m.scope
        WHEN 'global' THEN m.user_id
        WHEN 'project' THEN m.project_id
        WHEN 'agent' THEN m.agent_id
        WHEN 'thread' THEN m.thread_id
        ELSE m.workspace_id
    END
"""

# All scope owners whose memories are visible without exception: a memory passes `IN_SCOPE` if its
# scope owner is one of these. For tables that store only the scope owner, such as the postings. A
# caller with `sees_only_own` sees neither the workspace nor a thread as a whole; `OWN_IN_SHARED`
# selects the rows they do see there.
SCOPE_OWNERS = f"""
    ARRAY(
        SELECT unnest(ARRAY[
            CASE WHEN %(is_member)s AND %(sees_others)s THEN %(workspace_id)s::uuid END,
            CASE WHEN %(sees_others)s THEN %(in_thread)s::uuid END,
            %(user_id)s::uuid, %(in_project)s::uuid, %(in_agent)s::uuid
        ])
        UNION ALL
        SELECT mine.project_id FROM ({OWN_PROJECTS}) AS mine
        WHERE %(in_project)s::uuid IS NULL
    )
"""

# For a caller with `sees_only_own`: their memories in the workspace and in the thread, and the
# scope owners of these.
OWN_IN_SHARED = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.deleted_at IS NULL
        AND m.scope IN ('workspace', 'thread') AND NOT %(sees_others)s AND ({IN_SCOPE})
"""
SHARED_SCOPE_OWNERS = "ARRAY[%(workspace_id)s::uuid, %(in_thread)s::uuid]"

# All members of the workspace see a thread, unless it belongs to a project: then only the project's
# members and the thread's owner see it.
THREAD_VISIBLE = f"""
    ((t.project_id IS NULL AND %(is_member)s)
     OR t.user_id = %(user_id)s
     OR t.project_id IN ({OWN_PROJECTS}))
"""

# Documents follow the same rule as threads. A document is invisible until its upload is complete.
DOCUMENT_VISIBLE = f"""
    d.status <> 'uploading'
    AND ((d.project_id IS NULL AND %(is_member)s)
         OR d.user_id = %(user_id)s
         OR d.project_id IN ({OWN_PROJECTS}))
"""


def scope_values(caller: Caller) -> dict[str, Any]:
    """The parameters of the scope predicates, and the workspace."""
    return {
        "workspace_id": caller.workspace_id,
        "user_id": caller.user_id,
        "is_member": not caller.is_guest,
        "sees_others": not caller.sees_only_own,
        "in_project": caller.project_id,
        "in_agent": caller.agent_id,
        "in_thread": caller.thread_id,
    }


def visibility_values(caller: Caller, now: datetime, view: View = CURRENT) -> dict[str, Any]:
    """The parameters of `VISIBLE`, and the workspace."""
    return scope_values(caller) | {
        "now": now,
        "as_of": view.as_of or now,
        "history": view.is_history,
    }
