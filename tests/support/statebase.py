"""Helpers for tests of the statebase interface."""

from typing import Any

import httpx2

Object = dict[str, Any]


async def open_session(http: httpx2.AsyncClient, **fields: Any) -> Object:
    """Create a session; return it as in the response."""
    response = await http.post("/v1/sessions", json={"agent_id": "agent", **fields})
    assert response.status_code == 201, response.text
    return response.json()


async def create_memory(
    http: httpx2.AsyncClient, content: str, session: Object | None = None, **fields: Any
) -> Object:
    """Create a memory, by default in a new session; return it as in the response."""
    session = session or await open_session(http)
    body = {"session_id": session["id"], "content": content, **fields}
    response = await http.post("/v1/memory", json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def search(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[Object]:
    """The memories that a search finds, best first."""
    response = await http.post("/v1/memory/search", json={"query": query, **fields})
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def search_texts(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[str]:
    """The texts that a search finds, best first."""
    return [each["content"] for each in await search(http, query, **fields)]


async def list_texts(http: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    """The texts of a list of memories, newest first."""
    response = await http.get("/v1/memory", params=parameters)
    assert response.status_code == 200, response.text
    return [each["content"] for each in response.json()["data"]]


def error_body(
    code: str, message: str, *, kind: str = "invalid_request_error", param: str | None = None
) -> Object:
    """The body of an error response."""
    return {"error": {"code": code, "message": message, "type": kind, "param": param}}


def error_of(response: httpx2.Response) -> tuple[int, str, str | None]:
    """Check the format of an error; return its status, code and field."""
    error = response.json()["error"]
    assert set(response.json()) == {"error"}
    assert set(error) - {"retry_after"} == {"code", "message", "type", "param"}
    assert isinstance(error["message"], str)
    return response.status_code, error["code"], error["param"]


NO_MEMORY = error_body("memory_not_found", "There is no such memory.")
NO_SESSION = error_body("session_not_found", "There is no such session.")
