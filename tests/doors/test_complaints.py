"""What is wrong with a field is said in our words, at every door, and never with its value."""

import re
from collections.abc import Iterator
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

Object = dict[str, Any]

WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, float("nan"), 10**30, "", "0", "secret", "s" * 100_001),
    *([], [""], ["secret"] * 10_001, [{}], {}, {"a": "secret"}, object()),
)
OURS = re.compile(
    r"`[\w.\[\]]+` (is required|must be [^.]+|must match `[^`]+`|must not be empty|must have at least [\d,]+ \w+"
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


@pytest.mark.parametrize(
    ("where", "said", "field"),
    [
        (("associations", 1, "weight"), "`associations[1].weight`", "associations.weight"),
        (("tags", 12), "`tags[12]`", "tags"),
        ((0, "a", "str", 2, "b", 3, "c", 4, "d"), "`a[2].b[3].c[4]`", "a.b.c"),
        (("content",), "`content`", "content"),
    ],
)
def test_a_complaint_says_which_entry_of_a_list_it_means(
    where: tuple[str | int, ...], said: str, field: str
) -> None:
    found = complaint([{"type": "missing", "loc": where}])

    assert (found.message, found.field) == (f"{said} is required.", field)


# At each door a text that is one character too long.
TOO_LONG = (
    ("/v1/memory/search", "query", 10_000),
    ("/v1/admin/workspaces", "name", 255),
    ("/v1/tools/memory_recall", "query", 10_000),
    ("/api/v1/memories/recall", "query", 10_000),
    ("/api/chats", "instructions", 20_000),
    ("/chat/api/workspaces", "name", 255),
)


def openai(said: str, field: str) -> tuple[int, Object]:
    kind = {"code": "invalid_request", "type": "invalid_request_error"}
    return 400, {"error": {**kind, "message": said, "param": field}}


def refusal(path: str, field: str, said: str) -> tuple[int, Object]:
    """How the door of this path says it."""
    match path.split("/")[1:3]:
        case ["v1", "tools"]:
            return 400, {"error": {"message": said, "type": "tool_error"}}
        case ["v1", _]:
            return openai(said, field)
        case ["api", "v1"]:
            error = {"code": "VALIDATION_ERROR", "message": said}
            return 422, {"success": False, "error": error}
        case ["api", _]:
            return 400, {"statusCode": 400, "error": "Bad Request", "message": said}
        case _:
            return 400, {"error": {"code": "invalid_request", "message": said}}


async def test_each_door_says_it_in_its_own_envelope(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as client,
        await browse(server, engine, caller) as browser,
    ):
        for path, field, most in TOO_LONG:
            http = browser if path.startswith("/chat") else client
            answer = await http.post(path, json={field: "s" * (most + 1)})
            said = f"`{field}` may have at most {most:,} characters; this has {most + 1:,}."
            assert (answer.status_code, answer.json()) == refusal(path, field, said)
        address = f"/v1/workspaces/{caller.workspace_id}/search"
        answer = await client.post(address, json={"query": ""})
    assert (answer.status_code, answer.json()) == openai("`query` must not be empty.", "query")
