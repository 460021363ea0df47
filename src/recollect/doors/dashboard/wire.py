"""What this door's JSON looks like."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.domain import Document, DocumentKind, Memory, MemoryId, Thread
from recollect.doors.dashboard.markdown import render
from recollect.doors.values import Body, Parameters, Time, iso
from recollect.engine.learn import Row as Candidate
from recollect.engine.overview import Embedding, Listed, Picture, Usage
from recollect.engine.people import KeyRecord, User, rights_of
from recollect.engine.search import Finding
from recollect.engine.shelf import Detail, Facet, source_type
from recollect.engine.talk import Shown, Told
from recollect.engine.workspace_search import kind_of
from recollect.engine.workspaces import Place


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorObject(BaseModel):
    """The envelope of every error, but for whoever is not signed in."""

    error: ErrorBody


Password = Annotated[str, Field(min_length=1, max_length=10_000)]


class Credentials(Body):
    """`POST /login`."""

    username: Annotated[str, Field(min_length=1, max_length=255)]
    password: Password


class NewPassword(Body):
    """`POST /chat/api/password`."""

    current: Password
    new: Password


class UserObject(BaseModel):
    """Somebody."""

    id: str
    name: str


class OrgObject(BaseModel):
    """An org."""

    name: str


class PlaceObject(BaseModel):
    """A workspace one may be in."""

    id: str
    name: str
    is_default: bool


class ModelObject(BaseModel):
    """A chat model."""

    id: str
    owned_by: str


class ServerObject(BaseModel):
    """What is running here."""

    version: str


class Me(BaseModel):
    """Who is signed in, and what there is for them."""

    user: UserObject
    org: OrgObject
    rights: list[str]
    workspaces: list[PlaceObject]
    models: list[ModelObject]
    default_model: str | None
    server: ServerObject


T = TypeVar("T")
Limit = Annotated[int, Field(ge=1)]
Cursor = Annotated[str, Field(max_length=300)]
Title = Annotated[str, Field(min_length=1, max_length=255)]
Word = Annotated[str, Field(min_length=1, max_length=1_000)]


class Page(BaseModel, Generic[T]):
    """Some of a list, and how to ask for the rest."""

    items: list[T]
    next_cursor: str | None = None
    has_more: bool = False


class PageParameters(Parameters):
    """Which part of a list."""

    cursor: Cursor | None = None
    limit: Limit | None = None


class MemoryParameters(PageParameters):
    """Which memories to list; with `q`, by how well they fit it."""

    q: Word | None = None
    category: Word | None = None
    source_type: Word | None = None
    tag: Word | None = None
    chat: Word | None = None


class NewChatMemory(Body):
    """`POST /chat/api/{chatId}/memory`: a message, a text, or both."""

    messageId: str | None = None
    content: str | None = None
    category: str | None = None
    synthesize: bool = False


class NewMemory(Body):
    """`POST /chat/api/workspaces/{workspaceId}/memories`."""

    content: str
    category: str | None = None


class MemoryChange(Body):
    """`PATCH` of a memory: nothing but its content."""

    content: str


class Pin(Body):
    """`POST .../memories/{memoryId}/pin`."""

    pinned: bool


class ChatMemoryObject(BaseModel):
    """A memory as its chat lists it."""

    id: str
    content: str
    summary: str | None
    category: str | None
    source_type: str
    created_at: str
    updated_at: str


class MemoryObject(ChatMemoryObject):
    """A memory."""

    source_chat_id: str | None
    source_message_id: str | None
    workspace_id: str
    pinned: bool
    tags: list[str]
    importance: float
    # Only where something was asked for: how well it fits, and its place in each list.
    score: float | None = None
    why: dict[str, Any] | None = None


class LearntObject(MemoryObject):
    """A memory, when it was learnt, and from when to when it held."""

    learned_at: str
    valid_from: str | None
    valid_until: str | None


class ChatMemories(BaseModel):
    """`GET /chat/api/{chatId}/memories`."""

    memories: list[ChatMemoryObject]


class Count(BaseModel):
    """How many there are."""

    count: int


class FacetObject(BaseModel):
    """A word memories can be told apart by."""

    name: str
    count: int


class ChatFacet(BaseModel):
    """A chat, and how many memories came from it."""

    id: str
    title: str | None
    count: int


class Facets(BaseModel):
    """By what the memories can be told apart, commonest first."""

    categories: list[FacetObject]
    source_types: list[FacetObject]
    tags: list[FacetObject]
    chats: list[ChatFacet]


class LinkObject(BaseModel):
    """A link to another memory; `out` reads from this one to that one."""

    relation: str
    direction: Literal["out", "in"]
    weight: float
    memory: MemoryObject


class DeedObject(BaseModel):
    """Something that was done to a memory."""

    at: str
    event: str
    actor: str
    version: int | None


class SourceMessage(BaseModel):
    """A message that a memory was made of."""

    id: str
    chat_id: str
    role: str
    content: str


class MemoryDetail(MemoryObject):
    """All there is to know of one memory."""

    quote: str | None
    reason: str | None
    source_note: str | None
    valid_from: str | None
    valid_until: str | None
    superseded_by: str | None
    replaces: list[MemoryObject]
    replaced_by: list[MemoryObject]
    links: list[LinkObject]
    history: list[DeedObject]
    messages: list[SourceMessage]


def memory_id(memory: Memory) -> str:
    """A memory's id as this door writes it."""
    return f"mem_{memory.code}"


def chat_id(code: str) -> str:
    """A chat's id as this door writes it."""
    return f"chat_{code}"


def message_id(code: str) -> str:
    """A message's id as this door writes it."""
    return f"msg_{code}"


def workspace_id(value: UUID) -> str:
    """A workspace's id as this door writes it."""
    return f"ws_{value}"


def from_chat_memory(memory: Memory) -> ChatMemoryObject:
    """A memory as its chat lists it."""
    return ChatMemoryObject(
        id=memory_id(memory),
        content=memory.content,
        summary=memory.summary,
        category=memory.category,
        source_type=source_type(memory),
        created_at=iso(memory.created_at),
        updated_at=iso(memory.updated_at),
    )


def from_memory(
    memory: Memory, sources: Mapping[MemoryId, str], finding: Finding | None = None
) -> MemoryObject:
    """A memory, the message it came from, and why it was found."""
    message = sources.get(memory.id)
    return MemoryObject(
        **from_chat_memory(memory).model_dump(),
        source_chat_id=chat_id(memory.thread_code) if memory.thread_code else None,
        source_message_id=message_id(message) if message else None,
        workspace_id=workspace_id(memory.workspace_id),
        pinned=memory.pinned,
        tags=list(memory.tags),
        importance=round(memory.importance, 4),
        score=round(finding.score, 6) if finding else None,
        why=_why(finding) if finding else None,
    )


def from_learnt(shown: MemoryObject, memory: Memory) -> LearntObject:
    """A memory on the timeline."""
    return LearntObject(
        **shown.model_dump(),
        learned_at=iso(memory.created_at),
        valid_from=iso(memory.valid_from) if memory.valid_from else None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
    )


def _why(finding: Finding) -> dict[str, Any]:
    return {
        str(each.source): {"rank": each.rank, "score": round(each.score, 6)}
        for each in finding.places
    }


def from_facets(found: Sequence[Facet]) -> Facets:
    """By what the memories can be told apart."""

    def words(kind: str) -> list[FacetObject]:
        return [
            FacetObject(name=each.name, count=each.count) for each in found if each.kind == kind
        ]

    return Facets(
        categories=words("category"),
        source_types=words("source_type"),
        tags=words("tag"),
        chats=[
            ChatFacet(id=chat_id(each.name), title=each.title, count=each.count)
            for each in found
            if each.kind == "chat"
        ],
    )


def from_detail(detail: Detail) -> MemoryDetail:
    """All there is to know of one memory."""
    memory = detail.memory
    sources = {memory.id: detail.messages[0].code} if detail.messages else {}
    return MemoryDetail(
        **from_memory(memory, sources).model_dump(),
        quote=memory.quote,
        reason=memory.reason,
        source_note=memory.source_note,
        valid_from=iso(memory.valid_from) if memory.valid_from else None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
        superseded_by=memory_id(detail.replaced_by[0]) if detail.replaced_by else None,
        replaces=[from_memory(each, {}) for each in detail.replaces],
        replaced_by=[from_memory(each, {}) for each in detail.replaced_by],
        links=[
            LinkObject(
                relation=each.association.relation,
                direction="out" if each.is_outward else "in",
                weight=each.association.weight,
                memory=from_memory(each.other, {}),
            )
            for each in detail.ties
        ],
        history=[
            DeedObject(at=iso(each.at), event=each.action, actor=each.actor, version=each.version)
            for each in detail.history
        ],
        messages=[
            SourceMessage(
                id=message_id(each.code),
                chat_id=chat_id(each.thread_code),
                role=each.role,
                content=each.content,
            )
            for each in detail.messages
        ],
    )


class ChatParameters(PageParameters):
    """Which chats to list: of a workspace, those that hold some words."""

    workspace: Word | None = None
    q: Word | None = None


class NewChat(Body):
    """`POST /chat/api/chats`."""

    title: Title | None = None
    workspace_id: str | None = None


class ChatChange(Body):
    """`PATCH /chat/api/chats/{chatId}`."""

    title: Title


class ChatObject(BaseModel):
    """A chat."""

    id: str
    title: str | None
    workspace_id: str
    created_at: str
    updated_at: str
    message_count: int


class NewTurn(Body):
    """`POST /chat/api/chats/{chatId}/turns`; only a compaction needs no content."""

    content: Annotated[str, Field(max_length=100_000)] = ""
    kind: Literal["chat", "deep_think", "research", "compaction"] = "chat"
    model: Annotated[str, Field(max_length=255)] | None = None
    temporary: bool = False


class InjectedObject(BaseModel):
    """A memory that the model was shown, and why."""

    memory_id: str
    content: str
    category: str | None
    score: float | None
    why: dict[str, Any]


class MessageObject(BaseModel):
    """Something said in a chat; one of a temporary turn has no id, for it is nowhere kept."""

    id: str | None
    role: str
    content: str
    html: str
    created_at: str
    kind: str | None
    memory_id: str | None
    is_complete: bool
    injected: list[InjectedObject]


def from_thread(thread: Thread) -> ChatObject:
    """A chat as it is shown."""
    return ChatObject(
        id=chat_id(thread.code),
        title=thread.name,
        workspace_id=workspace_id(thread.workspace_id),
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
        message_count=thread.message_count,
    )


def from_told(told: Told) -> MessageObject:
    """A message as it is shown, with the memories behind it."""
    message = told.message
    return MessageObject(
        id=message_id(message.code),
        role=message.role,
        content=message.content,
        html=render(message.content),
        created_at=iso(message.created_at),
        kind=_text(message.metadata.get("kind")),
        memory_id=f"mem_{message.memory_code}" if message.memory_code else None,
        is_complete=not message.metadata.get("incomplete"),
        injected=[from_shown(each) for each in told.shown],
    )


def from_passing(role: str, content: str, at: datetime) -> MessageObject:
    """A message of a temporary turn."""
    return MessageObject(
        id=None,
        role=role,
        content=content,
        html=render(content),
        created_at=iso(at),
        kind=None,
        memory_id=None,
        is_complete=True,
        injected=[],
    )


def from_shown(shown: Shown) -> InjectedObject:
    """A memory that the model was shown."""
    return InjectedObject(
        memory_id=memory_id(shown.memory),
        content=shown.memory.content,
        category=shown.memory.category,
        score=shown.score,
        why=dict(shown.why),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class NodeObject(BaseModel):
    """Something in the graph."""

    id: str
    kind: Literal["memory", "document", "decision", "milestone", "artifact"]
    label: str
    importance: float
    created_at: str


class EdgeObject(BaseModel):
    """What ties two things."""

    source: str
    target: str
    kind: Literal["explicit", "similarity", "provenance", "contradicts"]
    relation: str
    weight: float


class GraphObject(BaseModel):
    """Things and what ties them."""

    nodes: list[NodeObject]
    edges: list[EdgeObject]


class CandidateObject(BaseModel):
    """Something learnt that waits for somebody's decision, and why it waits."""

    id: str
    content: str
    summary: str | None
    category: str | None
    quote: str
    reason: str | None
    source_type: str
    created_at: str


class CallsObject(BaseModel):
    """What a model was used for on a day; what it cost, where its price is known."""

    day: str
    purpose: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    failed: int


class RecallsObject(BaseModel):
    """How many turns of a day recalled, and how many milliseconds that took."""

    day: str
    count: int
    p50: float
    p95: float


class UsageObject(BaseModel):
    """What was used, by day."""

    calls: list[CallsObject]
    recall: list[RecallsObject]


class JobObject(BaseModel):
    """A job in the queue."""

    id: str
    kind: str
    state: str
    tries: int
    error: str | None
    created_at: str
    due_at: str
    workspace_id: str


class Jobs(Page[JobObject]):
    """Jobs that are not done, newest first, and how many there are by state."""

    counts: dict[str, int]


class ChatModelObject(ModelObject):
    """A chat model, and whether it answers when nobody names one."""

    is_default: bool


class GenerationObject(BaseModel):
    """A vector space: in use, or being built, and how far it is."""

    id: str
    model: str
    state: Literal["current", "building"]
    done: int
    total: int


class EmbedderObject(BaseModel):
    """What texts are embedded with."""

    model: str
    dimensions: int | None
    generations: list[GenerationObject]


class LimitsObject(BaseModel):
    """What is bounded here."""

    content_bytes: int
    daily_tokens: int
    injection_floor: float
    is_reviewed: bool


class SettingsObject(BaseModel):
    """How this server is set up, as far as its people need to know."""

    models: list[ChatModelObject]
    embedder: EmbedderObject
    limits: LimitsObject


class NewKey(Body):
    """`POST /chat/api/keys`: to a workspace, the default one where none is named."""

    name: Title
    rights: Annotated[list[Literal["read", "write", "delete", "admin"]], Field(min_length=1)]
    expires: Time | None = None
    expires_days: Annotated[int, Field(ge=1, le=3_650)] | None = None
    workspace_id: str | None = None


class KeyObject(BaseModel):
    """An API key, without its text."""

    id: str
    name: str
    shown: str
    rights: list[str]
    workspace_id: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKeyObject(KeyObject):
    """A key just made: the only time its text is shown."""

    key: str


class NewMember(Body):
    """`POST /chat/api/members`; an admin where `admin` is among the rights."""

    name: Title
    password: Password | None = None
    rights: list[Literal["read", "write", "delete", "admin"]] = []


class MemberObject(BaseModel):
    """Somebody of the org."""

    id: str
    name: str
    role: Literal["admin", "member"]
    rights: list[str]


class NewMemberObject(MemberObject):
    """Somebody just added; a password that was made up is shown only now."""

    password: str | None


class WorkspaceName(Body):
    """`POST` and `PATCH` of a workspace."""

    name: Title


def document_id(code: str) -> str:
    """A document's or an artifact's id as this door writes it."""
    return f"cart_{code}"


def from_picture(picture: Picture, kind: str | None) -> GraphObject:
    """A graph, of one kind of thing or of all."""
    nodes = [*map(_memory_node, picture.memories), *map(_document_node, picture.documents)]
    nodes = [each for each in nodes if kind is None or each.kind == kind]
    known = {each.id for each in nodes}
    edges = [
        EdgeObject(
            source=_id_of(each.source),
            target=_id_of(each.target),
            kind=cast("Any", each.kind),
            relation=each.relation,
            weight=each.weight,
        )
        for each in picture.ties
    ]
    edges = [each for each in edges if each.source in known and each.target in known]
    return GraphObject(nodes=nodes, edges=edges)


def _id_of(thing: Memory | Document) -> str:
    return memory_id(thing) if isinstance(thing, Memory) else document_id(thing.code)


def _memory_node(memory: Memory) -> NodeObject:
    return NodeObject(
        id=memory_id(memory),
        kind=cast("Any", kind_of(memory).value),
        label=_cut(memory.summary or memory.content),
        importance=round(memory.importance, 4),
        created_at=iso(memory.created_at),
    )


def _document_node(document: Document) -> NodeObject:
    return NodeObject(
        id=document_id(document.code),
        kind="artifact" if document.kind is DocumentKind.ARTIFACT else "document",
        label=_cut(document.name),
        importance=0.5,
        created_at=iso(document.created_at),
    )


def _cut(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def from_candidate(candidate: Candidate) -> CandidateObject:
    """What waits."""
    is_auto = candidate.source.startswith("auto_")
    return CandidateObject(
        id=f"lrn_{candidate.id}",
        content=candidate.content,
        summary=candidate.summary,
        category=candidate.category,
        quote=candidate.quote,
        reason=candidate.why,
        source_type=candidate.source if is_auto else "model",
        created_at=iso(candidate.created_at),
    )


def from_usage(usage: Usage) -> UsageObject:
    """What was used, one line for each day, purpose and model."""
    sums: dict[tuple[str, str, str], CallsObject] = {}
    for line in usage.lines:
        key = (f"{line.day:%Y-%m-%d}", line.purpose, line.model)
        known = sums.setdefault(
            key,
            CallsObject(
                day=key[0],
                purpose=line.purpose,
                model=line.model,
                calls=0,
                input_tokens=0,
                output_tokens=0,
                cost=None,
                failed=0,
            ),
        )
        known.calls += line.calls
        known.input_tokens += line.input_tokens
        known.output_tokens += line.output_tokens
        known.failed += line.calls if line.state == "failed" else 0
        if line.cost is not None:
            known.cost = (known.cost or 0.0) + line.cost
    return UsageObject(
        calls=list(sums.values()),
        recall=[
            RecallsObject(
                day=f"{each.day:%Y-%m-%d}",
                count=each.count,
                p50=round(each.p50, 1),
                p95=round(each.p95, 1),
            )
            for each in usage.recalls
        ],
    )


def from_job(job: Listed) -> JobObject:
    """A job in the queue."""
    return JobObject(
        id=str(job.id),
        kind=job.kind,
        state=job.status,
        tries=job.attempts,
        error=job.last_error,
        created_at=iso(job.created_at),
        due_at=iso(job.run_after),
        workspace_id=workspace_id(job.workspace_id),
    )


def from_embedding(found: Embedding) -> EmbedderObject:
    """What texts are embedded with."""
    return EmbedderObject(
        model=found.model,
        dimensions=found.dimension,
        generations=[
            GenerationObject(
                id=str(each.number),
                model=each.model,
                state="current" if each.state == "serving" else "building",
                done=each.filled,
                total=each.wanted,
            )
            for each in found.generations
        ],
    )


def from_key(key: KeyRecord) -> KeyObject:
    """A key, without its text."""
    return KeyObject(
        id=f"key_{key.id}",
        name=key.name,
        shown=f"{key.prefix}…{key.last_four}",
        rights=sorted(key.rights),
        workspace_id=workspace_id(key.workspace_id) if key.workspace_id else None,
        created_at=iso(key.created_at),
        expires_at=iso(key.expires_at) if key.expires_at else None,
        revoked_at=iso(key.revoked_at) if key.revoked_at else None,
        last_used_at=iso(key.last_used_at) if key.last_used_at else None,
    )


def from_member(user: User) -> MemberObject:
    """Somebody of the org."""
    return MemberObject(
        id=str(user.id),
        name=user.login,
        role="admin" if user.is_admin else "member",
        rights=sorted(rights_of(user)),
    )


def from_place(place: Place) -> PlaceObject:
    """A workspace one may be in."""
    return PlaceObject(id=workspace_id(place.id), name=place.name, is_default=place.is_default)
