"""The tools a model is offered to remember and recall with, and what they answer it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect.domain import (
    Caller,
    Filter,
    Memory,
    MessageId,
    Origin,
    Ref,
    Right,
    ThreadId,
)
from recollect.engine.channels import Channel
from recollect.engine.core import Engine
from recollect.engine.documents import keep_artifact
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.recall import Hit, Recall, recall, unsaid
from recollect.engine.rounds import Call, arguments_of
from recollect.engine.save import Save, save
from recollect.engine.search import Search, said_then
from recollect.engine.secrets import redacted
from recollect.engine.workspace_search import Result, SearchWorkspace, search_workspace, title_of
from recollect.errors import Failure, Invalid

Object = dict[str, Any]

SAVE = "x_save_memory"
RECALL = "x_recall_memory"
SEARCH = "x_workspace_search"
ARTIFACT = "x_create_artifact"
# What earlier releases of the original called them.
ALIASES: Mapping[str, str] = {"save_memory": SAVE, "recall_memory": RECALL, "file_search": SEARCH}
NAMES = frozenset({SAVE, RECALL, SEARCH, ARTIFACT, *ALIASES})

_MOST_RECALLED = 20
_MOST_FOUND = 50
# Who asks outright gets an answer that may be far off; unasked, the floor is higher.
_GENEROUS = 0.3


@dataclass(frozen=True, slots=True)
class Context:
    """Where a call was made: whose turn it is, in which conversation, and what the user said."""

    subject: str | None = None
    channel: Channel | None = None
    thread_id: ThreadId | None = None
    said: str = ""
    # Whether the turn may be learnt from.
    learns: bool = False
    # Whether what the model makes may be kept.
    makes_artifacts: bool = False
    # Models number their calls as they like; with the turn's name the number is unique.
    turn: str = ""
    # The messages of the conversation that the model has before it.
    in_front: frozenset[MessageId] = frozenset()

    @property
    def visible(self) -> Filter:
        """Which memories this turn may see: all, or its user's and those about nobody."""
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
    "limit": {"type": "integer", "minimum": 1, "description": "Most results to return."},
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
        "Keep a finished text, such as a report, a plan or a program, as a file of the workspace "
        "that people can open and search later. Not for what belongs in the answer alone.",
        "name",
        "content",
        name={"type": "string", "description": "A file name with its ending: plan.md, load.py."},
        content={"type": "string", "description": "The whole text of the file."},
    ),
}


def offered(
    caller: Caller, *, may_save: bool, may_recall: bool, may_make: bool = False
) -> list[Object]:
    """The tools for a turn of this caller."""
    names: list[str] = []
    if may_save and Right.WRITE in caller.rights:
        names.append(SAVE)
    if may_recall and Right.READ in caller.rights:
        names += [RECALL, SEARCH]
    if may_make and Right.WRITE in caller.rights:
        names.append(ARTIFACT)
    return [_DEFINITIONS[name] for name in names]


async def run(engine: Engine, caller: Caller, context: Context, call: Call) -> str:
    """Carry out a call; what goes wrong is told to the model, which can mend it."""
    arguments = arguments_of(call)
    if arguments is None:
        return f"Error: the arguments of {call.name} are not a JSON object."
    name = ALIASES.get(call.name, call.name)
    try:
        if name == SAVE:
            return await _save(engine, caller, context, call, arguments)
        tell = {SEARCH: _searched, ARTIFACT: _made}.get(name, _recalled)
        said = await tell(engine, caller, context, arguments)
        await _completed(engine, caller, context, call)
    except Failure as failure:
        return f"Error: {failure.message}"
    return said


async def _save(
    engine: Engine, caller: Caller, context: Context, call: Call, arguments: Object
) -> str:
    content = _text(arguments, "content")
    category = arguments.get("category")
    if category is not None and not isinstance(category, str):
        raise Invalid("`category` must be a text.", field="category")
    saved = await save(
        engine,
        caller,
        Save(
            content=redacted(content),
            category=category,
            subject=context.subject,
            channel=context.channel,
            origin=Origin.MODEL,
            returns_twin=True,
            stays_in_project=True,
            lesson=lesson_of(caller, _lesson(engine, context, call)),
        ),
    )
    return f"{'Saved' if saved.is_new else 'Already known'} as {_id(saved.memory)}."


async def _made(engine: Engine, caller: Caller, context: Context, arguments: Object) -> str:
    """Keep what the model made, as it made it; it is read and searched as any document is."""
    if not context.makes_artifacts:
        raise Invalid("Nothing can be kept here.")
    name, content = _text(arguments, "name"), _text(arguments, "content")
    thread = Ref(id=context.thread_id) if context.thread_id else None
    kept = await keep_artifact(engine, caller, name, redacted(content), thread=thread)
    return f"Kept as cart_{kept.code}."


async def _recalled(engine: Engine, caller: Caller, context: Context, arguments: Object) -> str:
    query = _text(arguments, "query")
    offset, limit = _page(arguments, default=5, most=_MOST_RECALLED)
    # A few more, in place of those that the model has before it.
    most = offset + limit + (_MOST_RECALLED if context.in_front else 0)
    ask = Recall(query, limit=most, threshold=_GENEROUS, wanted=context.visible)
    # "What did we talk about yesterday?" means nothing that a memory could be near to.
    told = await said_then(engine, caller, Search(query, limit=most, wanted=context.visible))
    hits = [Hit(each, 1.0, None) for each in told] or (await recall(engine, caller, ask)).hits
    if context.in_front:
        async with engine.reading(caller) as db:
            hits = await unsaid(db, caller, hits, context.in_front)
    entries = [
        _entry(_id(hit.memory), _category(hit.memory), hit.score, hit.memory.content)
        for hit in hits[offset : offset + limit]
    ]
    return _list("# Recalled memories", entries, offset)


async def _searched(engine: Engine, caller: Caller, context: Context, arguments: Object) -> str:
    query = _text(arguments, "query")
    offset, limit = _page(arguments, default=10, most=_MOST_FOUND)
    ask = SearchWorkspace(query, limit=limit, offset=offset, wanted=context.visible)
    entries = [_result(each) for each in await search_workspace(engine, caller, ask)]
    return _list("# Workspace search", entries, offset)


def _result(result: Result) -> str:
    found = result.found
    if isinstance(found, Memory):
        about = f"{result.kind}, {_category(found)}"
        return _entry(_id(found), about, result.score, found.content)
    about = f"{result.kind}, {title_of(found)}"
    return _entry(f"cart_{found.document_code}", about, result.score, found.content.strip())


def _list(heading: str, entries: list[str], offset: int) -> str:
    numbered = [f"{number}. {entry}" for number, entry in enumerate(entries, start=offset + 1)]
    return "\n".join([heading, *(numbered or ["Nothing was found."])])


def _entry(name: str, about: str, score: float, text: str) -> str:
    return f"**{name}** ({about}, score {score:.2f})\n{text}"


def _category(memory: Memory) -> str:
    return memory.category or "uncategorized"


def _page(arguments: Object, *, default: int, most: int) -> tuple[int, int]:
    offset = _count(arguments, "offset", default=0, least=0)
    return offset, min(_count(arguments, "limit", default=default, least=1), most)


async def _completed(engine: Engine, caller: Caller, context: Context, call: Call) -> None:
    """Every completed call leaves one lesson."""
    if not context.learns:
        return
    lesson = lesson_of(caller, _lesson(engine, context, call))
    async with engine.writing(caller) as db:
        await learn_from(engine, db, caller, lesson)


def _lesson(engine: Engine, context: Context, call: Call) -> Said:
    """What the user said when the model called: a result holds nothing that is not known yet."""
    return Said(
        context.said,
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
        raise Invalid(f"`{name}` is required and must be a text.", field=name)
    if "\0" in found:
        raise Invalid(f"`{name}` holds a NUL character.", field=name)
    return found.encode("utf-8", "replace").decode()


def _count(arguments: Object, name: str, *, default: int, least: int) -> int:
    found = arguments.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= 10_000:
        raise Invalid(f"`{name}` must be a whole number from {least}.", field=name)
    return found
