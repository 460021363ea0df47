"""The nouns of the product, as frozen values. No I/O, no wire names, no SQL."""

import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType
from uuid import UUID, uuid4

from recollect.core.errors import Denied

OrgId = NewType("OrgId", UUID)
UserId = NewType("UserId", UUID)
WorkspaceId = NewType("WorkspaceId", UUID)
KeyId = NewType("KeyId", UUID)
MemoryId = NewType("MemoryId", UUID)
ThreadId = NewType("ThreadId", UUID)
MessageId = NewType("MessageId", UUID)
FileId = NewType("FileId", UUID)
DocumentId = NewType("DocumentId", UUID)
ChunkId = NewType("ChunkId", UUID)
ProjectId = NewType("ProjectId", UUID)
AgentId = NewType("AgentId", UUID)
JobId = NewType("JobId", UUID)

Json = Mapping[str, Any]

CODE_LENGTH = 24
SHORT_CODE_LENGTH = 12
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Ref:
    """An id in any form: the UUID, the code of 24 characters, or its first twelve."""

    id: UUID | None = None
    code: str | None = None


# Each interface writes ids with its own prefix and accepts those of the others.
MEMORY_PREFIXES = ("mem_", "mem-")
THREAD_PREFIXES = ("sess_", "chat_", "chat-", "conv_")
MESSAGE_PREFIXES = ("msg_", "msg-")
TURN_PREFIXES = ("turn_",)
FILE_PREFIXES = ("file_", "file-")
DOCUMENT_PREFIXES = ("cart_",)


def parse_ref(text: str, *prefixes: str) -> Ref | None:
    """Parse an id with or without one of the prefixes. None if the text cannot be an id."""
    for prefix in prefixes:
        text = text.removeprefix(prefix)
    if len(text) in {SHORT_CODE_LENGTH, CODE_LENGTH} and text.isascii() and text.isalnum():
        return Ref(code=text)
    try:
        return Ref(id=UUID(text))
    except ValueError:
        return None


def utc_now() -> datetime:
    """The clock of a running server. Tests give the engine another one."""
    return datetime.now(UTC)


def new_code() -> str:
    """A random public code. 24 alphanumeric characters hold 142 bits, the first twelve 71."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(CODE_LENGTH))


def code_from(seed: bytes) -> str:
    """A code of the same form that depends only on the seed, which has at least 32 bytes."""
    number = int.from_bytes(seed, "big")
    letters: list[str] = []
    for _ in range(CODE_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def new_memory_id() -> MemoryId:
    """A random id for a new memory."""
    return MemoryId(uuid4())


class Right(StrEnum):
    """The rights of a credential."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class RepeatKey:
    """The idempotency key of a request that a client may repeat; see `db.idempotency`."""

    key_id: KeyId
    route: str
    token: str
    # The end of the claim's lease. It also identifies the claim: no two claims have the same value.
    locked_until: datetime


# Stands for "no workspace is active". It has no data, and nothing can be written to it.
NO_WORKSPACE = WorkspaceId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request. It alone decides which rows are visible."""

    org_id: OrgId
    user_id: UserId
    workspace_id: WorkspaceId
    rights: frozenset[Right]
    key_id: KeyId | None = None
    label: str = ""
    repeat_key: RepeatKey | None = None
    # The scope of the request, set by `tenancy.request_scope` after it has checked access.
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None
    thread_id: ThreadId | None = None
    # In a workspace where the user is a guest, the caller sees only the user's own rows, not the
    # shared ones.
    is_guest: bool = False
    # The key belongs to an org and works in every workspace that its user may enter.
    is_unbound: bool = False
    # The key/value interface shows rows of the workspace and of threads as `global`, so it shows
    # them only to their owner (R290).
    sees_only_own: bool = False

    def require(self, right: Right) -> None:
        """Raise `Denied` unless this caller has the right."""
        if right not in self.rights:
            holder = "key" if self.key_id else "account"
            raise Denied(f"This {holder} lacks the `{right}` right.")


class Origin(StrEnum):
    """Who created a memory."""

    USER = "user"
    MODEL = "model"
    AUTO = "auto"


class Lifecycle(StrEnum):
    """Whether a memory decays."""

    PERMANENT = "permanent"
    DECAYING = "decaying"


class Scope(StrEnum):
    """Who can see a memory inside its workspace."""

    WORKSPACE = "workspace"
    GLOBAL = "global"
    PROJECT = "project"
    AGENT = "agent"
    THREAD = "thread"


# The default importance of each kind (R235). `general` is a plain statement and counts as a fact.
IMPORTANCE_BY_KIND: Mapping[str, float] = {
    "identity": 1.0,
    "decision": 0.8,
    "preference": 0.7,
    "goal": 0.7,
    "fact": 0.5,
    "event": 0.5,
    "observation": 0.4,
    "todo": 0.3,
}
DEFAULT_IMPORTANCE = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered statement, written through any interface."""

    id: MemoryId
    code: str
    workspace_id: WorkspaceId
    org_id: OrgId
    user_id: UserId
    content: str
    created_at: datetime
    updated_at: datetime
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None
    thread_id: ThreadId | None = None
    thread_code: str | None = None
    thread_label: str | None = None
    # The person it is about, by the client's own name for its users; not one of our accounts.
    subject: str | None = None
    summary: str | None = None
    key: str | None = None
    category: str | None = None
    kind: str | None = None
    tags: Sequence[str] = ()
    metadata: Json = field(default_factory=dict[str, Any])
    importance: float = DEFAULT_IMPORTANCE
    importance_base: float = DEFAULT_IMPORTANCE
    pinned: bool = False
    expires_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: MemoryId | None = None
    lifecycle: Lifecycle = Lifecycle.PERMANENT
    scope: Scope = Scope.WORKSPACE
    origin: Origin = Origin.USER
    origin_label: str | None = None
    source_note: str | None = None
    reason: str | None = None
    quote: str | None = None
    wants_vector: bool = True
    has_vector: bool = False
    last_accessed_at: datetime | None = None
    access_count: int = 0
    deleted_at: datetime | None = None
    version: int = 1

    @property
    def is_restricted(self) -> bool:
        """Whether only some members of its workspace can see it."""
        return self.scope is not Scope.WORKSPACE


@dataclass(frozen=True, slots=True)
class View:
    """The point in time of a query: now, an earlier time, or the whole history."""

    as_of: datetime | None = None
    is_history: bool = False


CURRENT = View()
HISTORY = View(is_history=True)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter over memories. None does not filter; an empty sequence matches nothing."""

    thread_id: ThreadId | None = None
    # Only memories from this agent's threads.
    agent: str | None = None
    subject: str | None = None
    # With `subject`: also memories without a subject.
    includes_subjectless: bool = False
    categories: Sequence[str] | None = None
    # The category that the calling interface gives to a row without one.
    uncategorised: str | None = None
    # A row whose category is not a kind counts as a fact.
    kinds: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    pinned: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether it matches every memory."""
        return self == Filter(uncategorised=self.uncategorised)

    @property
    def is_thread_only(self) -> bool:
        """Whether it filters by thread and by nothing else."""
        only_thread = Filter(thread_id=self.thread_id, uncategorised=self.uncategorised)
        return self.thread_id is not None and self == only_thread


NO_FILTER = Filter()


class Relation(StrEnum):
    """How one memory relates to another, read from source to target."""

    RELATED_TO = "related_to"
    UPDATES = "updates"
    CONTRADICTS = "contradicts"
    CAUSED_BY = "caused_by"
    RESULT_OF = "result_of"
    PART_OF = "part_of"


@dataclass(frozen=True, slots=True)
class Association:
    """A typed, weighted link between two memories, unique by source, target and relation."""

    id: UUID
    source_id: MemoryId
    target_id: MemoryId
    relation: Relation
    weight: float
    is_authored: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation. The interfaces call it chat, session or channel."""

    id: ThreadId
    code: str
    workspace_id: WorkspaceId
    agent: str | None
    subject: str | None
    metadata: Json
    state: Json
    state_version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    memory_count: int = 0
    turn_count: int = 0
    # Another system's name for it, unique in the workspace.
    label: str | None = None
    # The title that users gave it, and whether it is pinned in the list.
    name: str | None = None
    pinned: bool = False
    message_count: int = 0
    # The user who started it, and its project and agent. Without a project, all members see it.
    user_id: UserId | None = None
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None


class SegmentReason(StrEnum):
    """Why a memory was made from these messages."""

    USER = "user_created"
    COMPLETED = "completed_discussion"
    TOPIC = "topic_change"
    LENGTH = "length_threshold"
    TIME = "time_threshold"


@dataclass(frozen=True, slots=True)
class MessagePosition:
    """The sort key of a message in its thread: the time it was sent, then the order of arrival."""

    at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message in a thread."""

    id: MessageId
    code: str
    thread_id: ThreadId
    thread_code: str
    position: int
    role: str
    content: str
    created_at: datetime
    author: str | None = None
    # The original parts, if it had more than text.
    parts: Sequence[Any] | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    # The sender's own id. A message sent twice is stored once.
    client_id: str | None = None
    edited_at: datetime | None = None
    # The memory made from it: preferably one that a user created, else the newest automatic one.
    memory_code: str | None = None

    @property
    def sort_position(self) -> MessagePosition:
        """Its sort key in the thread."""
        return MessagePosition(self.created_at, self.position)


@dataclass(frozen=True, slots=True)
class File:
    """A file attached to a message. Its bytes are stored separately."""

    id: FileId
    code: str
    message_id: MessageId
    filename: str
    media_type: str
    size: int
    digest: bytes
    created_at: datetime


class DocumentKind(StrEnum):
    """Whether a user uploaded the document or the assistant created it."""

    UPLOAD = "upload"
    ARTIFACT = "artifact"


class DocumentStatus(StrEnum):
    """The progress of a document. One with status `stored` is stored whole but not searchable."""

    UPLOADING = "uploading"
    WAITING = "waiting"
    READING = "reading"
    READY = "ready"
    STORED = "stored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Document:
    """A document: stored whole, searchable by its chunks. Its bytes are stored separately."""

    id: DocumentId
    code: str
    kind: DocumentKind
    name: str
    media_type: str
    size: int
    digest: bytes
    status: DocumentStatus
    created_at: datetime
    # What went wrong, or why it is not searchable.
    error: str | None = None
    chunk_count: int = 0
    # How many chunks have a vector and can be found by meaning.
    embedded_count: int = 0
    project_id: ProjectId | None = None
    thread_id: ThreadId | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document's text, with the fields needed to cite it."""

    id: ChunkId
    document_id: DocumentId
    document_code: str
    document_name: str
    document_kind: DocumentKind
    number: int
    content: str
    heading: str | None
    page: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange in a thread, numbered from 1."""

    id: UUID
    code: str
    thread_id: ThreadId
    number: int
    input: Json
    output: Json
    reasoning: str | None
    metadata: Json
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StateVersion:
    """A thread's state at one version."""

    version: int
    state: Json
    reasoning: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One audit event: who did what to which thing. It holds ids and hashes, never text."""

    id: UUID
    action: str
    actor: str
    thread_code: str | None
    subject: str | None
    details: Json
    at: datetime


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """When a conversation segment ends. Each rule has a setting."""

    max_messages: int = 20
    max_pause: timedelta = timedelta(minutes=30)
    # A message less similar than this (0 to 1) to those before it starts a new topic.
    min_similarity: float = 0.20


@dataclass(frozen=True, slots=True)
class Generation:
    """One vector space: its model, its dimension, and its state (filling, serving, retired)."""

    number: int
    kind: str
    endpoint: str
    model: str
    dimension: int
    fingerprint: Sequence[float]
    state: str


class VectorIndexInfo(NamedTuple):
    """A vector index: its approximate number of memories, and the share that every caller sees."""

    size: int
    shared: float = 1.0


@dataclass(frozen=True, slots=True)
class GenerationState:
    """The embedder that a workspace has chosen, and its generations in use."""

    embedder: str | None
    serving: Generation | None
    filling: Generation | None
    # The vector indexes of the serving generation by thread; None is the whole workspace's.
    indexed: Mapping[ThreadId | None, VectorIndexInfo] = field(
        default_factory=dict[ThreadId | None, VectorIndexInfo]
    )
