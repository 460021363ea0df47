"""Messages as the segmenter hears them, with their vectors, and where they fall into stretches."""

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

# So many messages are read at once, and more where a stretch may be longer: see `ahead`.
_AHEAD = 64
# What a message is about stands at its beginning; the rest would only be slow.
_HEARD_CHARACTERS = 2_000
_TALK = {"user", "assistant"}


def messages_to_read(rules: SegmentRules) -> int:
    """How many messages to read at once: a stretch ends within these, however long it may be."""
    return max(_AHEAD, rules.max_messages + 1)


async def segment_ends_of(
    engine: Engine, workspace_id: WorkspaceId, said: Sequence[Message], rules: SegmentRules
) -> list[SegmentEnd]:
    """Where these messages are cut, heard by the workspace's own embedder."""
    if not said:
        return []
    space = await generations.current_generations(engine, workspace_id)
    embedder = (
        engine.embedders.of(generations.identity_of(space.serving))
        if space.serving
        else engine.embedders.configured(space.embedder)
    )
    heard = await _heard(engine, embedder, said)
    return list(segment_ends(heard, rules, embedder.likeness))


async def _heard(
    engine: Engine, embedder: Embedder, said: Sequence[Message]
) -> list[SegmenterMessage]:
    """Messages with their vectors; those heard a moment ago are remembered."""
    keys = {
        each.id: hashlib.sha256(f"{embedder.identity}\0{each.content}".encode()).digest()
        for each in said
        if each.role in _TALK and each.content.strip()
    }
    known = {
        each: vector
        for each, key in keys.items()
        if (vector := engine.vector_cache.get(key)) is not None
    }
    new = [each for each in said if each.id in keys and each.id not in known]
    found = await _vectors(embedder, [each.content[:_HEARD_CHARACTERS] for each in new])
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
        for each in said
    ]


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """A vector for each text; None for one that the embedder will not have."""
    if not texts:
        return []
    try:
        return list(await embedder.embed(texts, Purpose.PASSAGE))
    except Unavailable:
        # Down, or one text it will not have? If a plain text passes, it is the text.
        await embedder.embed([generations.FINGERPRINT_TEXT], Purpose.PASSAGE)
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [
        *await _vectors(embedder, texts[:middle]),
        *await _vectors(embedder, texts[middle:]),
    ]
