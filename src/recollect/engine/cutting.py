"""Messages as the segmenter hears them, with their vectors, and where they fall into stretches."""

import hashlib
from collections.abc import Sequence

from recollect.domain import Message, WorkspaceId
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.segmentation import Cut, Heard, Rules, cuts
from recollect.engine.summaries import speaker_of
from recollect.errors import Unavailable
from recollect.models.embed import Embedder, Purpose, Vector

# So many messages are read at once, and more where a stretch may be longer: see `ahead`.
_AHEAD = 64
# What a message is about stands at its beginning; the rest would only be slow.
_HEARD_CHARACTERS = 2_000
_TALK = {"user", "assistant"}


def ahead(rules: Rules) -> int:
    """How many messages to read at once: a stretch ends within these, however long it may be."""
    return max(_AHEAD, rules.most_messages + 1)


async def cuts_of(
    engine: Engine, workspace_id: WorkspaceId, said: Sequence[Message], rules: Rules
) -> list[Cut]:
    """Where these messages are cut, heard by the workspace's own embedder."""
    if not said:
        return []
    space = await spaces.current_space(engine, workspace_id)
    embedder = (
        engine.embedders.of(spaces.identity_of(space.serving))
        if space.serving
        else engine.embedders.configured(space.embedder)
    )
    heard = await _heard(engine, embedder, said)
    return list(cuts(heard, rules, embedder.likeness))


async def _heard(engine: Engine, embedder: Embedder, said: Sequence[Message]) -> list[Heard]:
    """Messages with their vectors; those heard a moment ago are remembered."""
    keys = {
        each.id: hashlib.sha256(f"{embedder.identity}\0{each.content}".encode()).digest()
        for each in said
        if each.role in _TALK and each.content.strip()
    }
    known = {
        each: vector for each, key in keys.items() if (vector := engine.heard.get(key)) is not None
    }
    new = [each for each in said if each.id in keys and each.id not in known]
    found = await _vectors(embedder, [each.content[:_HEARD_CHARACTERS] for each in new])
    fresh = {each.id: vector for each, vector in zip(new, found, strict=True) if vector is not None}
    engine.heard.keep({keys[each]: vector for each, vector in fresh.items()})
    known |= fresh
    return [
        Heard(
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
        await embedder.embed([spaces.PROBE], Purpose.PASSAGE)
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [
        *await _vectors(embedder, texts[:middle]),
        *await _vectors(embedder, texts[middle:]),
    ]
