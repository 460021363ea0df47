"""The nouns of the product, as frozen values. No I/O, no wire names, no SQL."""

import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID, uuid4

from recollect.errors import Denied

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
    """Any spelling of an id: the UUID, the code of 24, or the first twelve of it."""

    id: UUID | None = None
    code: str | None = None


# Every door writes ids with prefixes of its own and takes those of the others.
MEMORY_PREFIXES = ("mem_", "mem-")
THREAD_PREFIXES = ("sess_", "chat_", "chat-", "conv_")
MESSAGE_PREFIXES = ("msg_", "msg-")
FILE_PREFIXES = ("file_", "file-")
DOCUMENT_PREFIXES = ("cart_",)


def parse_ref(text: str, *prefixes: str) -> Ref | None:
    """The id a client means, with or without one of the prefixes; None if it can be no id."""
    for prefix in prefixes:
        text = text.removeprefix(prefix)
    if len(text) in {SHORT_CODE_LENGTH, CODE_LENGTH} and text.isascii() and text.isalnum():
        return Ref(code=text)
    try:
        return Ref(id=UUID(text))
    except ValueError:
        return None


def utc_now() -> datetime:
    """The clock of a running server; tests hand the engine another."""
    return datetime.now(UTC)


def new_code() -> str:
    """A random public code; 24 alphanumerics hold 142 bits, the first twelve 71."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(CODE_LENGTH))


def code_from(seed: bytes) -> str:
    """A code of the same form that hangs on the seed alone, of 32 bytes or more."""
    number = int.from_bytes(seed, "big")
    letters: list[str] = []
    for _ in range(CODE_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def new_memory_id() -> MemoryId:
    """A random id for a memory about to be born."""
    return MemoryId(uuid4())


class Right(StrEnum):
    """What a credential may do."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Once:
    """A client's promise that a repeated request is the same one; see `store.idempotency`."""

    key_id: KeyId
    route: str
    token: str
    # Until then nobody takes the request for dead; no two that are taken up have the same.
    held_until: datetime


# No workspace is active: nothing there can be seen, and nothing can be put there.
NOWHERE = WorkspaceId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and where: the one thing that decides what can be seen."""

    org_id: OrgId
    user_id: UserId
    workspace_id: WorkspaceId
    rights: frozenset[Right]
    key_id: KeyId | None = None
    label: str = ""
    once: Once | None = None
    # What the request is about; set by `engine.contexts`, which checks that the caller may.
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None
    thread_id: ThreadId | None = None
    # In a workspace other than its own a caller sees what is its user's, not what is everybody's.
    is_visiting: bool = False
    # Of an org, not of one workspace of it: it may be in each that its user may enter.
    is_unbound: bool = False

    def require(self, right: Right) -> None:
        """Raise `Denied` unless this caller holds the right."""
        if right not in self.rights:
            who = "key" if self.key_id else "account"
            raise Denied(f"This {who} lacks the `{right}` right.")


class Origin(StrEnum):
    """Who put a memory there."""

    USER = "user"
    MODEL = "model"
    AUTO = "auto"


class Lifecycle(StrEnum):
    """Whether time wears a memory down."""

    PERMANENT = "permanent"
    DECAYING = "decaying"


class Scope(StrEnum):
    """Who sees a memory inside its workspace."""

    WORKSPACE = "workspace"
    GLOBAL = "global"
    PROJECT = "project"
    AGENT = "agent"
    THREAD = "thread"


# What a kind of memory is worth when nobody says (R235); general is a plain statement like a fact.
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
    """One remembered statement, whichever door wrote it."""

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
    # Whom it is about, as the client names its own users; no account of ours.
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
        """Whether not everybody in its workspace sees it."""
        return self.scope is not Scope.WORKSPACE


@dataclass(frozen=True, slots=True)
class View:
    """At which time things are looked at: now, then, or all that was ever held true."""

    as_of: datetime | None = None
    is_history: bool = False


CURRENT = View()
HISTORY = View(is_history=True)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which memories are meant; None leaves that side open, an empty sequence matches nothing."""

    thread_id: ThreadId | None = None
    # Those that came from this agent's threads.
    agent: str | None = None
    subject: str | None = None
    # Beside the subject's own, those that are about nobody in particular.
    is_shared: bool = False
    categories: Sequence[str] | None = None
    # What a row without a category counts as, in the words of the door that asks.
    uncategorised: str | None = None
    # A row whose category names no kind counts as a fact.
    kinds: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    pinned: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether it leaves every side open."""
        return self == Filter(uncategorised=self.uncategorised)

    @property
    def is_of_thread_alone(self) -> bool:
        """Whether it asks for one thread's, and leaves every other side open."""
        alone = Filter(thread_id=self.thread_id, uncategorised=self.uncategorised)
        return self.thread_id is not None and self == alone


ANY = Filter()


class Relation(StrEnum):
    """How one memory stands to another; read from source to target."""

    RELATED_TO = "related_to"
    UPDATES = "updates"
    CONTRADICTS = "contradicts"
    CAUSED_BY = "caused_by"
    RESULT_OF = "result_of"
    PART_OF = "part_of"


@dataclass(frozen=True, slots=True)
class Association:
    """A typed, weighted link between two memories; one per source, target and relation."""

    id: UUID
    source_id: MemoryId
    target_id: MemoryId
    relation: Relation
    weight: float
    is_authored: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation: what the documents call chat, session or channel."""

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
    # What another system calls it; one thread of a workspace has it.
    label: str | None = None
    # What people call it, and whether they keep it on top.
    name: str | None = None
    pinned: bool = False
    message_count: int = 0
    # Who began it, and of which project and agent it is; None is everybody's in the workspace.
    user_id: UserId | None = None
    project_id: ProjectId | None = None
    agent_id: AgentId | None = None


class Reason(StrEnum):
    """Why a memory was made of these messages."""

    USER = "user_created"
    COMPLETED = "completed_discussion"
    TOPIC = "topic_change"
    LENGTH = "length_threshold"
    TIME = "time_threshold"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands in its thread: by the time it was said, then by arrival."""

    at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Message:
    """One thing somebody said in a thread."""

    id: MessageId
    code: str
    thread_id: ThreadId
    thread_code: str
    position: int
    role: str
    content: str
    created_at: datetime
    author: str | None = None
    # What it was made of, where it was more than text.
    parts: Sequence[Any] | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    # The sender's own id: sent twice, it is kept once.
    client_id: str | None = None
    edited_at: datetime | None = None
    # The memory it went into: one made by hand before one that was cut, the newest of these.
    memory_code: str | None = None

    @property
    def place(self) -> Place:
        """Where it stands in its thread."""
        return Place(self.created_at, self.position)


@dataclass(frozen=True, slots=True)
class File:
    """Something attached to a message; its bytes are kept apart."""

    id: FileId
    code: str
    message_id: MessageId
    filename: str
    media_type: str
    size: int
    digest: bytes
    created_at: datetime


class DocumentKind(StrEnum):
    """Whether somebody brought it or the assistant made it."""

    UPLOAD = "upload"
    ARTIFACT = "artifact"


class DocumentStatus(StrEnum):
    """How far a document is; one that is stored is kept whole and cannot be searched."""

    UPLOADING = "uploading"
    WAITING = "waiting"
    READING = "reading"
    READY = "ready"
    STORED = "stored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Document:
    """Something written that is kept whole, and found by its chunks; its bytes are kept apart."""

    id: DocumentId
    code: str
    kind: DocumentKind
    name: str
    media_type: str
    size: int
    digest: bytes
    status: DocumentStatus
    created_at: datetime
    # What went wrong, or why there is nothing to search.
    error: str | None = None
    chunk_count: int = 0
    # How many of the chunks have a vector, so that they are found by meaning too.
    embedded_count: int = 0
    project_id: ProjectId | None = None
    thread_id: ThreadId | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a document's text, with what is needed to cite it."""

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
    """What a thread's state was at one version."""

    version: int
    state: Json
    reasoning: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One audited act: who did what to which thing. It holds ids and hashes, never text."""

    id: UUID
    action: str
    actor: str
    thread_code: str | None
    subject: str | None
    details: Json
    at: datetime
