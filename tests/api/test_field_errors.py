"""Field errors have our own wording at every interface and never contain the value."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from recollect.api.field_errors import field_error
from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from tests.support.alumia import client_of
from tests.support.dashboard import connect_signed_in

pytestmark = pytest.mark.anyio

Object = dict[str, Any]

WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, float("nan"), 10**30, "", "0", "secret", "s" * 100_001),
    *([], [""], ["secret"] * 10_001, [{}], {}, {"a": "secret"}, object()),
)
MESSAGE = re.compile(
    r"`[\w.\[\]]+` (is required|must be [^.]+|must match `[^`]+`|must not be empty|must have at least [\d,]+ \w+"
    r"|may have at most [\d,]+ \w+; this has [\d,]+|is invalid: [a-z][^.]+)\."
    r"|The body must be a JSON object\."
)


def models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    """Every model that an interface reads or writes."""
    for each in base.__subclasses__():
        if each.__module__.startswith("recollect.api."):
            yield each
        yield from models(each)


def test_every_field_error_has_our_wording_and_no_value() -> None:
    seen: set[str] = set()
    for model in set(models()):
        for name, field in model.model_fields.items():
            for value in WRONG:
                try:
                    model.model_validate({field.alias or name: value})
                except ValidationError as error:
                    for each in error.errors(include_url=False)[:10]:
                        message = field_error([each]).message
                        seen.add(each["type"])
                        assert MESSAGE.fullmatch(message), (model, name, each["type"], message)
                        assert "secret" not in message
    assert {"string_too_long", "too_long", "greater_than_equal", "literal_error"} <= seen


@pytest.mark.parametrize(
    ("where", "message", "field"),
    [
        (("associations", 1, "weight"), "`associations[1].weight`", "associations.weight"),
        (("tags", 12), "`tags[12]`", "tags"),
        ((0, "a", "str", 2, "b", 3, "c", 4, "d"), "`a[2].b[3].c[4]`", "a.b.c"),
        (("content",), "`content`", "content"),
    ],
)
def test_a_message_names_the_index_of_a_list_entry(
    where: tuple[str | int, ...], message: str, field: str
) -> None:
    found = field_error([{"type": "missing", "loc": where}])

    assert (found.message, found.field) == (f"{message} is required.", field)


# At each interface, a field and its limit.
TOO_LONG = (
    ("/v1/memory/search", "query", 10_000),
    ("/v1/admin/workspaces", "name", 255),
    ("/v1/tools/memory_recall", "query", 10_000),
    ("/api/v1/memories/recall", "query", 10_000),
    ("/api/chats", "instructions", 20_000),
    ("/chat/api/workspaces", "name", 255),
)


def openai(message: str, field: str) -> tuple[int, Object]:
    kind = {"code": "invalid_request", "type": "invalid_request_error"}
    return 400, {"error": {**kind, "message": message, "param": field}}


def expected_error(path: str, field: str, message: str) -> tuple[int, Object]:
    """The response of the interface that serves this path."""
    match path.split("/")[1:3]:
        case ["v1", "tools"]:
            return 400, {"error": {"message": message, "type": "tool_error"}}
        case ["v1", _]:
            return openai(message, field)
        case ["api", "v1"]:
            error = {"code": "VALIDATION_ERROR", "message": message}
            return 422, {"success": False, "error": error}
        case ["api", _]:
            return 400, {"statusCode": 400, "error": "Bad Request", "message": message}
        case _:
            return 400, {"error": {"code": "invalid_request", "message": message}}


async def test_each_interface_reports_too_long_fields_in_its_own_format(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as client,
        await connect_signed_in(server, engine, caller) as browser,
    ):
        for path, field, limit in TOO_LONG:
            http = browser if path.startswith("/chat") else client
            response = await http.post(path, json={field: "s" * (limit + 1)})
            message = f"`{field}` may have at most {limit:,} characters; this has {limit + 1:,}."
            assert (response.status_code, response.json()) == expected_error(path, field, message)
        path = f"/v1/workspaces/{caller.workspace_id}/search"
        response = await client.post(path, json={"query": ""})
    assert (response.status_code, response.json()) == openai("`query` must not be empty.", "query")
