"""The definition of a tool. MCP, `/v1/tools` and the OpenAPI document are all derived from it."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import JsonSchemaMode

from recollect.api import strict_json
from recollect.api.field_errors import field_error
from recollect.api.tools.wire import Arguments
from recollect.core.domain import Caller, Right
from recollect.engine import Engine


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. Its definition never depends on stored data."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[BaseModel]
    right: Right
    # Called with the parsed arguments, after the right has been checked.
    action: Callable[[Engine, Caller, Any], Awaitable[BaseModel]]
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    # The text of a result for a model; None: the result as JSON.
    text: Callable[[Any], str] | None = None

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return _schema(self.arguments, "validation")

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        return _schema(self.result, "serialization")

    async def call(self, engine: Engine, caller: Caller, arguments: Mapping[str, Any]) -> BaseModel:
        """Parse the arguments and run the tool; raise `Invalid` for the first problem in them."""
        # On stdio no gateway has checked them yet, so reject what cannot be stored.
        strict_json.read(json.dumps(arguments).encode())
        try:
            parsed = self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise field_error(error.errors(include_url=False)) from None
        return await self.run(engine, caller, parsed)

    async def run(self, engine: Engine, caller: Caller, arguments: Arguments) -> BaseModel:
        """Run the tool for a caller who has its right."""
        caller.require(self.right)
        return await self.action(engine, caller, arguments)

    def result_text(self, result: BaseModel) -> str:
        """Return a result as text for a model, by default as unescaped JSON."""
        if self.text:
            return self.text(result)
        return json.dumps(to_json(result), ensure_ascii=False)


def to_json(result: BaseModel) -> dict[str, Any]:
    """Return a result as JSON, without null fields."""
    return result.model_dump(mode="json", exclude_none=True)


def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    """Return a schema without references, because not every client resolves them."""
    schema = model.model_json_schema(mode=mode)
    schema.pop("description")  # the tool has its own description
    return _inline(schema, schema.pop("$defs", {}))


def _inline(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    # Generated titles repeat the field names and would only cost tokens.
    result = {name: value for name, value in schema.items() if name != "title"}
    if "properties" in result:
        fields: dict[str, Any] = result["properties"]
        result["properties"] = {name: _inline(field, definitions) for name, field in fields.items()}
    if "items" in result:
        result["items"] = _inline(result["items"], definitions)
    return result
