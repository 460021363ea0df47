"""Helpers for tests of the informer interface: chats, messages and memories."""

from typing import Any

import httpx2

Http = httpx2.AsyncClient
Object = dict[str, Any]


async def new_chat(http: Http, **more: Any) -> str:
    response = await http.post("/api/chats", json={"name": "Planning", **more})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def add_messages(http: Http, chat: str, *texts: str) -> list[str]:
    messages = [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(texts)
    ]
    response = await http.post(f"/api/chats/{chat}/messages", json={"messages": messages})
    assert response.status_code == 201, response.text
    return [each["id"] for each in response.json()["messages"]]


async def create_memory(http: Http, chat: str, ids: list[str], **more: Any) -> Object:
    response = await http.post(f"/api/chats/{chat}/memories", json={"messageIds": ids, **more})
    assert response.status_code == 201, response.text
    return response.json()


async def list_memories(http: Http, chat: str, **query: Any) -> Object:
    response = await http.get(f"/api/chats/{chat}/memories", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def search_memories(http: Http, chat: str, query: str, **more: Any) -> list[Object]:
    body = {"query": query, **more}
    response = await http.post(f"/api/chats/{chat}/memories/search", json=body)
    assert response.status_code == 200, response.text
    return response.json()["results"]


def error_of(response: httpx2.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"statusCode", "error", "message"}
    assert body["statusCode"] == response.status_code
    return body["statusCode"], body["error"]
