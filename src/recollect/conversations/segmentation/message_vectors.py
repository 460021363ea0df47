"""Embed messages for the segmenter, and find where they divide into segments."""

import hashlib
from collections.abc import Sequence

from recollect.conversations.segmentation.boundaries import (
    SegmentEnd,
    SegmenterMessage,
    segment_ends,
)
from recollect.conversations.summaries import speaker_of
from recollect.core.domain import Message, SegmentRules, WorkspaceId
from recollect.core.errors import Unavailable
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.models.embedder import Embedder, Purpose, Vector

# The number of messages read at once, unless segments may be longer; see `messages_to_read`.
_MESSAGES_AT_ONCE = 64
# The beginning of a message says what it is about; embedding more only takes longer.
_MAX_CHARACTERS = 2_000
_SEGMENTED_ROLES = {"user", "assistant"}


def messages_to_read(rules: SegmentRules) -> int:
    """Return how many messages to read at once: at least one segment ends within them."""
    return max(_MESSAGES_AT_ONCE, rules.max_messages + 1)


async def segment_ends_of(
    engine: Engine, workspace_id: WorkspaceId, messages: Sequence[Message], rules: SegmentRules
) -> list[SegmentEnd]:
    """Return where these messages divide, using the workspace's own embedder."""
    if not messages:
        return []
    state = await generations.current_generations(engine, workspace_id)
    embedder = (
        engine.embedders.of(generations.identity_of(state.serving))
        if state.serving
        else engine.embedders.configured(state.embedder)
    )
    embedded = await _with_vectors(engine, embedder, messages)
    return list(segment_ends(embedded, rules, embedder.likeness))


async def _with_vectors(
    engine: Engine, embedder: Embedder, messages: Sequence[Message]
) -> list[SegmenterMessage]:
    """Return messages with their vectors; recent vectors come from the cache."""
    keys = {
        each.id: hashlib.sha256(f"{embedder.identity}\0{each.content}".encode()).digest()
        for each in messages
        if each.role in _SEGMENTED_ROLES and each.content.strip()
    }
    known = {
        each: vector
        for each, key in keys.items()
        if (vector := engine.vector_cache.get(key)) is not None
    }
    new = [each for each in messages if each.id in keys and each.id not in known]
    found = await _vectors(embedder, [each.content[:_MAX_CHARACTERS] for each in new])
    fresh = {each.id: vector for each, vector in zip(new, found, strict=True) if vector is not None}
    engine.vector_cache.put({keys[each]: vector for each, vector in fresh.items()})
    known |= fresh
    return [
        SegmenterMessage(
            each.content,
            speaker_of(each),
            each.created_at,
            known.get(each.id),
        )
        for each in messages
    ]


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """Return a vector for each text, or None for a text that the embedder rejects."""
    if not texts:
        return []
    try:
        return list(await embedder.embed(texts, Purpose.PASSAGE))
    except Unavailable:
        # Either the embedder is down or it rejects one text. If it embeds a plain text, it is the
        # text.
        await embedder.embed([generations.FINGERPRINT_TEXT], Purpose.PASSAGE)
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [
        *await _vectors(embedder, texts[:middle]),
        *await _vectors(embedder, texts[middle:]),
    ]
