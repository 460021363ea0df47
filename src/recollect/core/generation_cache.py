"""A cache of each workspace's embedding generations, per process."""

from datetime import datetime, timedelta

from recollect.core.domain import GenerationState, WorkspaceId

# Stale entries are safe: a save reads the state again inside its transaction, and the vectors of a
# retired generation stay much longer than this. With 2 s, searches that rotate over 100 workspaces
# nearly always missed the cache, and reading the state took 0.7 of their 9.5 ms.
_MAX_AGE = timedelta(seconds=20)
_MAX_ENTRIES = 10_000


class GenerationCache:
    """Generation states by workspace, each valid for a short time."""

    def __init__(self) -> None:
        self._entries: dict[WorkspaceId, tuple[GenerationState, datetime]] = {}

    def get(self, workspace_id: WorkspaceId, now: datetime) -> GenerationState | None:
        """The cached state, or None if there is none or it is too old."""
        entry = self._entries.get(workspace_id)
        if entry is None:
            return None
        state, read_at = entry
        return state if now - read_at < _MAX_AGE else None

    def put(self, workspace_id: WorkspaceId, state: GenerationState, now: datetime) -> None:
        """Cache a state that has a serving generation. Clears the whole cache when it is too large.

        A state without one is not cached: the first memory may be saved at any time, here or in
        another process, and must be found at once.
        """
        if state.serving is None:
            return
        if len(self._entries) > _MAX_ENTRIES:
            self._entries.clear()
        self._entries[workspace_id] = (state, now)

    def drop(self, workspace_id: WorkspaceId) -> None:
        """Remove an entry, so that the next caller reads it from the database."""
        self._entries.pop(workspace_id, None)
