"""What is wrong with a field is said in our words, at every door, and never with its value."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from recollect.domain import Caller
from recollect.doors.complaints import complaint
from recollect.engine.core import Engine
from recollect.server import Server
from tests.support.alumia import client_of
from tests.support.dashboard import browse

pytestmark = pytest.mark.anyio

WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, float("nan"), 10**30, "", "0", "secret", "s" * 100_001),
    *([], [""], ["secret"] * 10_001, [{}], {}, {"a": "secret"}, object()),
)
OURS = re.compile(
    r"`[\w.]+` (is required|must be [^.]+|must match `[^`]+`|must not be empty|must have at least [\d,]+ \w+"
    r"|may have at most [\d,]+ \w+; this has [\d,]+|is not acceptable: [a-z][^.]+)\."
    r"|The body must be a JSON object\."
)


def models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    """Everything that a door reads or writes."""
    for each in base.__subclasses__():
        if each.__module__.startswith("recollect.doors."):
            yield each
        yield from models(each)


def test_every_field_of_every_door_is_complained_about_in_our_words() -> None:
    seen: set[str] = set()
    for model in set(models()):
        for name, field in model.model_fields.items():
            for value in WRONG:
                try:
                    model.model_validate({field.alias or name: value})
                except ValidationError as error:
                    for each in error.errors(include_url=False)[:10]:
                        said = complaint([each]).message
                        seen.add(each["type"])
                        assert OURS.fullmatch(said), (model, name, each["type"], said)
                        assert "secret" not in said
    assert {"string_too_long", "too_long", "greater_than_equal", "literal_error"} <= seen


# At each door a text that is one character too long, and the answer.
REFUSED: tuple[tuple[str, str, int, int, Callable[[str], Any]], ...] = (
    ("/v1/memory/search", "query", 10_000, 400, lambda said: {"error": openai(said, "query")}),
    ("/v1/admin/workspaces", "name", 255, 400, lambda said: {"error": openai(said, "name")}),
    (
        *("/v1/tools/memory_recall", "query", 10_000, 400),
        lambda said: {"error": {"message": said, "type": "tool_error"}},
    ),
    (
        *("/api/v1/memories/recall", "query", 10_000, 422),
        lambda said: {"success": False, "error": {"code": "VALIDATION_ERROR", "message": said}},
    ),
    (
        *("/api/chats", "instructions", 20_000, 400),
        lambda said: {"statusCode": 400, "error": "Bad Request", "message": said},
    ),
    (
        *("/chat/api/workspaces", "name", 255, 400),
        lambda said: {"error": {"code": "invalid_request", "message": said}},
    ),
)


def openai(said: str, field: str) -> dict[str, Any]:
    kind = {"code": "invalid_request", "type": "invalid_request_error"}
    return {**kind, "message": said, "param": field}


async def test_each_door_says_it_in_its_own_envelope(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as client,
        await browse(server, engine, caller) as browser,
    ):
        for path, field, most, status, body in REFUSED:
            http = browser if path.startswith("/chat") else client
            answer = await http.post(path, json={field: "s" * (most + 1)})
            said = f"`{field}` may have at most {most:,} characters; this has {most + 1:,}."
            assert (answer.status_code, answer.json()) == (status, body(said)), path
        address = f"/v1/workspaces/{caller.workspace_id}/search"
        answer = await client.post(address, json={"query": ""})
    said = openai("`query` must not be empty.", "query")
    assert (answer.status_code, answer.json()) == (400, {"error": said})
