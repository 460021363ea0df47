"""Chats, messages and memories made through the informer door."""

from typing import Any

import httpx2

Http = httpx2.AsyncClient
Object = dict[str, Any]


async def new_chat(http: Http, **more: Any) -> str:
    answer = await http.post("/api/chats", json={"name": "Planning", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def say(http: Http, chat: str, *texts: str) -> list[str]:
    said = [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(texts)
    ]
    answer = await http.post(f"/api/chats/{chat}/messages", json={"messages": said})
    assert answer.status_code == 201, answer.text
    return [each["id"] for each in answer.json()["messages"]]


async def remember(http: Http, chat: str, ids: list[str], **more: Any) -> Object:
    answer = await http.post(f"/api/chats/{chat}/memories", json={"messageIds": ids, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(http: Http, chat: str, **query: Any) -> Object:
    answer = await http.get(f"/api/chats/{chat}/memories", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def found(http: Http, chat: str, query: str, **more: Any) -> list[Object]:
    body = {"query": query, **more}
    answer = await http.post(f"/api/chats/{chat}/memories/search", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def complaint(answer: httpx2.Response) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"statusCode", "error", "message"}
    assert body["statusCode"] == answer.status_code
    return body["statusCode"], body["error"]
