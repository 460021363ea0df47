"""Short ways to say what nearly every test of the statebase door does first."""

from typing import Any

import httpx2

Object = dict[str, Any]


async def open_session(http: httpx2.AsyncClient, **fields: Any) -> Object:
    """A session, as the door answered."""
    answer = await http.post("/v1/sessions", json={"agent_id": "agent", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def remember(
    http: httpx2.AsyncClient, content: str, session: Object | None = None, **fields: Any
) -> Object:
    """A memory, as the door answered; of a session of its own unless one is given."""
    session = session or await open_session(http)
    body = {"session_id": session["id"], "content": content, **fields}
    answer = await http.post("/v1/memory", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def search(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[Object]:
    """What a search finds."""
    answer = await http.post("/v1/memory/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def found(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[str]:
    """The texts a search finds, best first."""
    return [each["content"] for each in await search(http, query, **fields)]


async def listed(http: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    """The texts of a list of memories, newest first."""
    answer = await http.get("/v1/memory", params=parameters)
    assert answer.status_code == 200, answer.text
    return [each["content"] for each in answer.json()["data"]]


def problem(
    code: str, message: str, *, kind: str = "invalid_request_error", param: str | None = None
) -> Object:
    """An error in the door's envelope."""
    return {"error": {"code": code, "message": message, "type": kind, "param": param}}


def complaint(answer: httpx2.Response) -> tuple[int, str, str | None]:
    """Status, code and field of an error, once its envelope was checked."""
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) - {"retry_after"} == {"code", "message", "type", "param"}
    assert isinstance(error["message"], str)
    return answer.status_code, error["code"], error["param"]


NO_MEMORY = problem("memory_not_found", "There is no such memory.")
NO_SESSION = problem("session_not_found", "There is no such session.")
