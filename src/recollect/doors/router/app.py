"""`/v1/chat/completions`, `/v1/models`, `/v1/embeddings`: the OpenAI API in front of any model."""

import base64
import re
import struct
from typing import Literal

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.doors.front import MIB, Door, bearer
from recollect.doors.furnish import BEARER, CallerOf, EngineOf, furnish, new_app, new_router
from recollect.doors.limits import Turnstile
from recollect.doors.router import responses, workspaces
from recollect.doors.router.body import Object, Sent, object_in, objects_in, takes
from recollect.doors.router.errors import ErrorObject, answer
from recollect.doors.router.headers import ask_of
from recollect.doors.router.sinks import ChatSink, TurnResponse
from recollect.doors.values import Body
from recollect.engine.catalogue import embed, find_model, list_models
from recollect.engine.core import Engine
from recollect.engine.turn import run_turn
from recollect.engine.workspaces import is_project
from recollect.errors import Invalid, NotFound

_PREFIXES = ("/v1/chat", "/v1/responses", "/v1/models", "/v1/embeddings", "/v1/workspaces")
# The same below a project, which is named as the original does; other doors' first words are none.
_TAKEN = "api|v1|chat|agents|mcp|health|metrics|docs|openapi|ui|login|logout"
_OF_PROJECT = re.compile(
    rf"/(?!(?:{_TAKEN})/)([^/]+)(/v1/(?:chat/completions|responses|models|embeddings|workspaces)"
    r"(?:/.*)?)$",
    re.DOTALL,
)
_MOST_BYTES = 8 * MIB

router = new_router(ErrorObject, 502, 504)


def door(engine: Engine, turnstile: Turnstile) -> Door:
    """The door, ready to be hung; so many turns of a key pass at once."""
    app = new_app(
        "Recollect: the router",
        "The OpenAI API in front of any model, with a memory.",
        [*router.routes, *responses.router.routes, *workspaces.router.routes],
    )
    app.state.turnstile = turnstile
    app.add_middleware(_Projects, engine=engine)
    furnish(app, engine, answer, BEARER)
    return Door("router", _PREFIXES, app, answer, bearer, _MOST_BYTES, also=_OF_PROJECT)


class _Projects:
    """Lets `/{project}/v1/...` mean `/v1/...` to those whose project it is."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raise `NotFound` for a project that is not the caller's."""
        named = _OF_PROJECT.match(scope["path"]) if scope["type"] == "http" else None
        if named:
            if not await is_project(self._engine, scope["state"]["caller"], named[1]):
                raise NotFound("project")
            scope = {**scope, "path": named[2], "raw_path": named[2].encode()}
        await self._app(scope, receive, send)


@router.post(
    "/v1/chat/completions",
    openapi_extra=takes(
        model={"type": "string"},
        messages={"type": "array", "items": {"type": "object"}},
        stream={"type": "boolean"},
    ),
)
async def chat_completions(
    request: Request, engine: EngineOf, caller: CallerOf, sent: Sent
) -> Response:
    """Chat completions, streamed or not; whatever is not ours passes through."""
    raw, body = sent
    check_chat(body)
    ask = ask_of(request.headers, raw, body)
    return TurnResponse(
        lambda sink: run_turn(engine, caller, ask, sink), lambda line: ChatSink(line, ask.body)
    )


def check_chat(body: Object) -> None:
    """Raise `Invalid` unless what we read has its form; what it says is the upstream's to judge."""
    if not body.get("messages"):
        raise Invalid("`messages` must be a list that is not empty.", field="messages")
    for message in objects_in(body, "messages"):
        if not isinstance(message.get("role"), str):
            raise Invalid("Each of `messages` must have a `role`.", field="messages")
        objects_in(message, "tool_calls")
    objects_in(body, "tools")
    object_in(body, "stream_options")


class ModelShown(BaseModel):
    """A model, as clients list it."""

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
    """The models of every upstream, and the built-in one."""
    found = await list_models(engine, caller)
    return ModelList(
        data=[ModelShown(id=each.id, created=each.created, owned_by=each.owner) for each in found]
    )


@router.get("/v1/models/{model:path}")
async def model(engine: EngineOf, caller: CallerOf, model: str) -> ModelShown:
    """One model."""
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
    """What it cost: nothing."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[EmbeddingShown]
    model: str
    usage: EmbeddingUsage


@router.post("/v1/embeddings")
async def embeddings(engine: EngineOf, caller: CallerOf, body: NewEmbeddings) -> EmbeddingList:
    """Vectors of the workspace's own embedder, the one its memories are found by."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    found = await embed(engine, caller, texts)
    if body.dimensions not in {None, found.dimension}:
        raise Invalid(
            f"`dimensions` must be {found.dimension}, what the model makes.", field="dimensions"
        )
    words = sum(len(text.split()) for text in texts)
    return EmbeddingList(
        data=[
            EmbeddingShown(index=index, embedding=_numbers(vector, body.encoding_format))
            for index, vector in enumerate(found.vectors)
        ],
        model=found.model,
        usage=EmbeddingUsage(prompt_tokens=words, total_tokens=words),
    )


def _numbers(vector: list[float], encoding: str) -> list[float] | str:
    if encoding == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
