"""Report the embedding model of a workspace and the progress of its generations."""

from dataclasses import dataclass

from recollect.core.domain import Caller, Right
from recollect.embeddings.generations import current_generations
from recollect.embeddings.queries import generations
from recollect.embeddings.queries.generations import Progress
from recollect.engine import Engine


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """The embedding model of a workspace, and the progress of its generations."""

    model: str
    dimension: int | None
    generations: list[Progress]


async def embedding_status(engine: Engine, caller: Caller) -> EmbeddingStatus:
    """Return the embedding model and progress of the caller's workspace."""
    caller.require(Right.READ)
    state = await current_generations(engine, caller.workspace_id)
    async with engine.reading(caller) as db:
        found = await generations.visible_progress(db, caller)
    configured = engine.embedders.configured(state.embedder).identity.model
    return EmbeddingStatus(configured, state.serving.dimension if state.serving else None, found)
