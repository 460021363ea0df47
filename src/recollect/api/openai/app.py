"""Routes of the OpenAI API: `/v1/chat/completions`, `/v1/models` and `/v1/embeddings`."""

import base64
import re
import struct
from typing import Literal

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.api.apps import BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.fields import Body
from recollect.api.gateway import MIB, Interface, bearer
from recollect.api.openai import responses, workspaces
from recollect.api.openai.body import Object, RawAndBody, object_in, objects_in, request_schema
from recollect.api.openai.errors import OpenAIErrorObject, answer
from recollect.api.openai.headers import to_turn_request
from recollect.api.openai.streams import ChatSink, TurnResponse
from recollect.api.rate_limits import ConcurrentTurns
from recollect.chat.model_list import embed, find_model, list_models
from recollect.chat.turn import run_turn
from recollect.core.errors import Invalid, NotFound
from recollect.engine import Engine
from recollect.tenancy.workspaces import is_own_org

_PREFIXES = ("/v1/chat", "/v1/responses", "/v1/models", "/v1/embeddings", "/v1/workspaces")
# The same paths below `/{project}`, as in the original product. The first path segments of other
# interfaces cannot be projects.
_RESERVED = "api|v1|chat|agents|mcp|health|metrics|docs|openapi|ui|login|logout"
_PROJECT_PATH = re.compile(
    rf"/(?!(?:{_RESERVED})/)([^/]+)(/v1/(?:chat/completions|responses|models|embeddings|workspaces)"
    r"(?:/.*)?)$",
    re.DOTALL,
)
_MAX_BODY_BYTES = 8 * MIB

router = new_router(OpenAIErrorObject, 502, 504)


def new_interface(engine: Engine, concurrent_turns: ConcurrentTurns) -> Interface:
    """Build the interface; `concurrent_turns` limits how many turns of a key run at once."""
    app = new_app(
        "Recollect: OpenAI API",
        "The OpenAI API in front of any model, with memory.",
        [*router.routes, *responses.router.routes, *workspaces.router.routes],
    )
    app.state.concurrent_turns = concurrent_turns
    app.add_middleware(_ProjectPaths, engine=engine)
    set_up(app, engine, answer, BEARER)
    return Interface(
        "router", _PREFIXES, app, answer, bearer, _MAX_BODY_BYTES, extra_paths=_PROJECT_PATH
    )


class _ProjectPaths:
    """Serves `/{project}/v1/...` like `/v1/...`, for callers of that project."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raise `NotFound` for a project that is not the caller's."""
        match = _PROJECT_PATH.match(scope["path"]) if scope["type"] == "http" else None
        if match:
            if not await is_own_org(self._engine, scope["state"]["caller"], match[1]):
                raise NotFound("project")
            scope = {**scope, "path": match[2], "raw_path": match[2].encode()}
        await self._app(scope, receive, send)


@router.post(
    "/v1/chat/completions",
    openapi_extra=request_schema(
        model={"type": "string"},
        messages={"type": "array", "items": {"type": "object"}},
        stream={"type": "boolean"},
    ),
)
async def chat_completions(
    request: Request, engine: EngineOf, caller: CallerOf, raw_and_body: RawAndBody
) -> Response:
    """Create a chat completion, streamed or not. Unknown fields pass through unchanged."""
    raw, body = raw_and_body
    check_chat(body)
    ask = to_turn_request(request.headers, raw, body)
    return TurnResponse(
        lambda sink: run_turn(engine, caller, ask, sink), lambda client: ChatSink(client, ask.body)
    )


def check_chat(body: Object) -> None:
    """Raise `Invalid` if a field that we read has the wrong form; the upstream checks the rest."""
    if not body.get("messages"):
        raise Invalid("`messages` must be a non-empty list.", field="messages")
    for message in objects_in(body, "messages"):
        if not isinstance(message.get("role"), str):
            raise Invalid("Each item of `messages` must have a `role`.", field="messages")
        objects_in(message, "tool_calls")
    objects_in(body, "tools")
    object_in(body, "stream_options")


class ModelShown(BaseModel):
    """A model in the list."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelShown]


@router.get("/v1/models")
async def models(engine: EngineOf, caller: CallerOf) -> ModelList:
    """List the models of every upstream, and the built-in one."""
    found = await list_models(engine, caller)
    return ModelList(
        data=[ModelShown(id=each.id, created=each.created, owned_by=each.owner) for each in found]
    )


@router.get("/v1/models/{model:path}")
async def model(engine: EngineOf, caller: CallerOf, model: str) -> ModelShown:
    """Get one model."""
    found = await find_model(engine, caller, model)
    return ModelShown(id=found.id, created=found.created, owned_by=found.owner)


class NewEmbeddings(Body):
    """`POST /v1/embeddings`."""

    input: str | list[str]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)


class EmbeddingShown(BaseModel):
    """One vector."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """The number of words, as a token count. Embedding is free."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """Vectors, in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[EmbeddingShown]
    model: str
    usage: EmbeddingUsage


@router.post("/v1/embeddings")
async def embeddings(engine: EngineOf, caller: CallerOf, body: NewEmbeddings) -> EmbeddingList:
    """Embed texts with the embedder of this server."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    found = await embed(engine, caller, texts)
    if body.dimensions not in {None, found.dimension}:
        raise Invalid(
            f"`dimensions` must be {found.dimension}, the dimension of the model.",
            field="dimensions",
        )
    words = sum(len(text.split()) for text in texts)
    return EmbeddingList(
        data=[
            EmbeddingShown(index=index, embedding=_encode(vector, body.encoding_format))
            for index, vector in enumerate(found.vectors)
        ],
        model=found.model,
        usage=EmbeddingUsage(prompt_tokens=words, total_tokens=words),
    )


def _encode(vector: list[float], encoding: str) -> list[float] | str:
    if encoding == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
