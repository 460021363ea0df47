"""The built-in tools with which a model saves, recalls and searches, and their results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from recollect.chat.tool_rounds import ToolCall, arguments_of
from recollect.core.domain import Caller, Filter, Memory, MessageId, Origin, Ref, Right, ThreadId
from recollect.core.errors import Failure, Invalid
from recollect.core.prompt_fence import clean_text, disarm_fences
from recollect.documents.documents import keep_artifact
from recollect.documents.workspace_search import (
    SearchedItem,
    SearchWorkspace,
    search_workspace,
    title_of,
)
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.learning.secrets import redact
from recollect.memories.save import Save, check_content, save_within
from recollect.search.hybrid import Search, recall_by_date
from recollect.search.semantic import Hit, Recall, not_in_messages, recall
from recollect.tenancy.thread_lookup import ThreadName

Object = dict[str, Any]

SAVE = "x_save_memory"
RECALL = "x_recall_memory"
SEARCH = "x_workspace_search"
ARTIFACT = "x_create_artifact"
# Names from earlier releases of the original product.
ALIASES: Mapping[str, str] = {"save_memory": SAVE, "recall_memory": RECALL, "file_search": SEARCH}
NAMES = frozenset({SAVE, RECALL, SEARCH, ARTIFACT, *ALIASES})

_MAX_RECALLED = 20
_MAX_FOUND = 50
# An entry shows at most this much of a text. No chunk of a document is longer.
_MAX_TEXT_CHARACTERS = 2_000
_MAX_LABEL_CHARACTERS = 500
# The start of a heading or an entry in a result list.
_LIKE_AN_ENTRY = re.compile(r"#|\d+\. ")
# Explicit recall also returns weak matches; injection uses a higher threshold.
_EXPLICIT_THRESHOLD = 0.3
_MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The turn in which a call is made: its user, its thread, and the user's message."""

    subject: str | None = None
    thread_name: ThreadName | None = None
    thread_id: ThreadId | None = None
    user_text: str = ""
    # Whether the turn may be learnt from.
    learns: bool = False
    # Whether the model may store files in the workspace.
    makes_artifacts: bool = False
    # Unique per turn. Call ids are not: models choose them freely.
    turn: str = ""
    # The stored messages that are part of the prompt.
    prompt_message_ids: frozenset[MessageId] = frozenset()

    @property
    def visible(self) -> Filter:
        """The memories this turn may see: all, or those about its subject and about no subject."""
        return Filter(subject=self.subject, is_shared=self.subject is not None)


def _function(tool: str, description: str, /, *required: str, **properties: Object) -> Object:
    return {
        "type": "function",
        "function": {
            "name": tool,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(required),
                "additionalProperties": False,
            },
        },
    }


_LIMITS: Object = {
    "offset": {"type": "integer", "minimum": 0, "description": "Results to skip, for paging."},
    "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of results."},
}
_DEFINITIONS: Mapping[str, Object] = {
    SAVE: _function(
        SAVE,
        "Save one fact, preference, instruction or decision to long-term memory, for every later "
        "conversation. One self-contained statement; never a secret.",
        "content",
        content={"type": "string", "description": "The statement to remember."},
        category={
            "type": "string",
            "description": "Short label, such as preference, fact, instruction or decision.",
        },
    ),
    RECALL: _function(
        RECALL,
        "Search long-term memory by meaning for what is known from earlier conversations.",
        "query",
        query={"type": "string", "description": "What to look for, in plain words."},
        **_LIMITS,
    ),
    SEARCH: _function(
        SEARCH,
        "Search everything in the workspace at once; each result says what kind it is.",
        "query",
        query={"type": "string", "description": "What to look for, in plain words."},
        **_LIMITS,
    ),
    ARTIFACT: _function(
        ARTIFACT,
        "Store a finished text, such as a report, a plan or a program, as a file in the workspace "
        "that people can open and search later. Not for text that belongs only in the answer.",
        "name",
        "content",
        name={"type": "string", "description": "File name with extension: plan.md, load.py."},
        content={"type": "string", "description": "The whole text of the file."},
    ),
}


def offered_tools(
    caller: Caller, *, may_save: bool, may_recall: bool, may_create_artifacts: bool = False
) -> list[Object]:
    """Return the definitions of the tools that this caller's turn may use."""
    names: list[str] = []
    if may_save and Right.WRITE in caller.rights:
        names.append(SAVE)
    if may_recall and Right.READ in caller.rights:
        names += [RECALL, SEARCH]
    if may_create_artifacts and Right.WRITE in caller.rights:
        names.append(ARTIFACT)
    return [_DEFINITIONS[name] for name in names]


async def run_tool(engine: Engine, caller: Caller, context: ToolContext, call: ToolCall) -> str:
    """Run a call and return its result. Errors become text for the model, which can retry."""
    arguments = arguments_of(call)
    if arguments is None:
        return f"Error: the arguments of {call.name} are not a JSON object."
    name = ALIASES.get(call.name, call.name)
    try:
        if name == SAVE:
            return await _save(engine, caller, context, call, arguments)
        run = {SEARCH: _search, ARTIFACT: _create_artifact}.get(name, _recall)
        result = await run(engine, caller, context, arguments)
        await _queue_learning(engine, caller, context, call)
    except Failure as failure:
        return f"Error: {failure.message}"
    return result


async def _save(
    engine: Engine, caller: Caller, context: ToolContext, call: ToolCall, arguments: Object
) -> str:
    content = _text(arguments, "content")
    category = arguments.get("category")
    if category is not None and not isinstance(category, str):
        raise Invalid("`category` must be a string.", field="category")
    ask = Save(
        content=redact(content),
        category=category,
        subject=context.subject,
        thread_name=context.thread_name,
        origin=Origin.MODEL,
        returns_duplicate=True,
        stays_in_project=True,
    )
    caller.require(Right.WRITE)
    check_content(ask.content)
    # Before the transaction: no connection is held while the embedder works.
    embedded = await generations.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        saved = await save_within(engine, db, caller, ask, embedded)
        item = inbox_item_of(caller, _learning_input(engine, context, call))
        await learn_from(engine, db, caller, item)
    return f"{'Saved' if saved.is_new else 'Already known'} as {_id(saved.memory)}."


async def _create_artifact(
    engine: Engine, caller: Caller, context: ToolContext, arguments: Object
) -> str:
    """Store the model's text as a file; it is read and searched like any document."""
    if not context.makes_artifacts:
        raise Invalid("This turn cannot store files.")
    name, content = _text(arguments, "name"), _text(arguments, "content")
    thread = Ref(id=context.thread_id) if context.thread_id else None
    stored = await keep_artifact(engine, caller, name, redact(content), thread=thread)
    return f"Stored as cart_{stored.code}."


async def _recall(engine: Engine, caller: Caller, context: ToolContext, arguments: Object) -> str:
    query = _text(arguments, "query")
    offset, limit = _page(arguments, default=5, max_limit=_MAX_RECALLED)
    # A few more, to replace those that repeat the prompt.
    count = offset + limit + (_MAX_RECALLED if context.prompt_message_ids else 0)
    ask = Recall(query, limit=count, threshold=_EXPLICIT_THRESHOLD, wanted=context.visible)
    # No memory is similar in meaning to "What did we talk about yesterday?".
    dated = await recall_by_date(engine, caller, Search(query, limit=count, wanted=context.visible))
    hits = [Hit(each, 1.0, None) for each in dated] or (await recall(engine, caller, ask)).hits
    if context.prompt_message_ids:
        async with engine.reading(caller) as db:
            hits = await not_in_messages(db, caller, hits, context.prompt_message_ids)
    entries = [
        _entry(_id(hit.memory), _category(hit.memory), hit.score, hit.memory.content)
        for hit in hits[offset : offset + limit]
    ]
    return _list("# Recalled memories", entries, offset)


async def _search(engine: Engine, caller: Caller, context: ToolContext, arguments: Object) -> str:
    query = _text(arguments, "query")
    offset, limit = _page(arguments, default=10, max_limit=_MAX_FOUND)
    ask = SearchWorkspace(query, limit=limit, offset=offset, wanted=context.visible)
    entries = [_search_entry(each) for each in await search_workspace(engine, caller, ask)]
    return _list("# Workspace search", entries, offset)


def _search_entry(result: SearchedItem) -> str:
    found = result.found
    if isinstance(found, Memory):
        label = f"{result.kind}, {_category(found)}"
        return _entry(_id(found), label, result.score, found.content)
    label = f"{result.kind}, {title_of(found)}"
    return _entry(f"cart_{found.document_code}", label, result.score, found.content.strip())


def _list(heading: str, entries: list[str], offset: int) -> str:
    numbered = [f"{number}. {entry}" for number, entry in enumerate(entries, start=offset + 1)]
    return "\n".join([heading, *(numbered or ["Nothing was found."])])


def _entry(name: str, label: str, score: float, text: str) -> str:
    """Format one entry of a list so that no line of its text looks like an entry or a heading."""
    text = clean_text(text, _MAX_TEXT_CHARACTERS)
    label = clean_text(label, _MAX_LABEL_CHARACTERS).replace("\n", " ")
    if "\n" in text or _LIKE_AN_ENTRY.match(text):
        text = indent(text, "   ")
    return disarm_fences(f"**{name}** ({label}, score {score:.2f})\n{text}")


def _category(memory: Memory) -> str:
    return memory.category or "uncategorized"


def _page(arguments: Object, *, default: int, max_limit: int) -> tuple[int, int]:
    offset = _count(arguments, "offset", default=0, minimum=0)
    return offset, min(_count(arguments, "limit", default=default, minimum=1), max_limit)


async def _queue_learning(
    engine: Engine, caller: Caller, context: ToolContext, call: ToolCall
) -> None:
    """Add one inbox item for a completed call."""
    if not context.learns:
        return
    item = inbox_item_of(caller, _learning_input(engine, context, call))
    async with engine.writing(caller) as db:
        await learn_from(engine, db, caller, item)


def _learning_input(engine: Engine, context: ToolContext, call: ToolCall) -> LearningInput:
    """Learn from the user's message, not from the result, which contains only known facts."""
    return LearningInput(
        context.user_text,
        "tool",
        engine.now(),
        subject=context.subject,
        thread_id=context.thread_id,
        key=f"call {context.turn} {call.id}",
    )


def _id(memory: Memory) -> str:
    return f"mem_{memory.code}"


def _text(arguments: Object, name: str) -> str:
    found = arguments.get(name)
    if not isinstance(found, str) or not found.strip():
        raise Invalid(f"`{name}` is required and must be a non-empty string.", field=name)
    if "\0" in found:
        raise Invalid(f"`{name}` must not contain a NUL character.", field=name)
    return found.encode("utf-8", "replace").decode()


def _count(arguments: Object, name: str, *, default: int, minimum: int) -> int:
    found = arguments.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not minimum <= found <= _MAX_COUNT:
        raise Invalid(f"`{name}` must be an integer from {minimum} to {_MAX_COUNT:,}.", field=name)
    return found
