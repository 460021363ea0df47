"""Importers of other systems' files, with data in the format that those systems write."""

import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from recollect.chat.dashboard_chats import delete_dashboard_chat
from recollect.conversations.messages import ListMessages, list_messages
from recollect.core.domain import Caller, Memory, Ref, Scope, UserId
from recollect.core.errors import Invalid
from recollect.engine import Engine
from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import open_files, read_values
from recollect.portability.importers.markdown import statements
from recollect.portability.importers.record_maker import RecordMaker
from recollect.portability.importers.registry import SOURCES
from recollect.portability.importing import ImportReport, ImportTarget, import_lines
from recollect.search.semantic import Recall, recall
from recollect.worker import Worker
from tests.support.export_files import Object, rows_of

pytestmark = pytest.mark.anyio


class NoBytes:
    def pieces(self, digest: str, size: int) -> None:
        return None


async def import_file(
    engine: Engine,
    caller: Caller,
    source: str,
    path: Path,
    *,
    learns: bool = False,
    scope: Scope = Scope.WORKSPACE,
) -> ImportReport:
    """Import a file of another system and return the report."""
    make = RecordMaker(source, caller.workspace_id, caller.user_id, engine.now(), scope=scope)
    target = ImportTarget(
        caller.workspace_id,
        caller.org_id,
        owner=caller.user_id,
        is_to_segment=True,
        is_to_learn=learns,
    )
    with open_files(path) as found:
        lines = SOURCES[source](found, make)
        report = await import_lines(engine, target, lines, attachments=NoBytes())
    report.left_out.update(make.left_out)
    return report


async def stored_memories(engine: Engine, caller: Caller) -> list[Object]:
    found = (await rows_of(engine, caller.workspace_id))["memory"]
    return sorted(found, key=lambda each: (each["created_at"], each["content"]))


def write_file(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


MEM0: list[Object] = [
    {
        "id": "0f6b2f0e-5a0e-4a0b-9d3c-1f2e3d4c5b6a",
        "memory": "Likes to travel by train",
        "user_id": "alex",
        "agent_id": "planner",
        "run_id": None,
        "hash": "5d41402abc4b2a76b9719d911017c592",
        "metadata": {"channel": "email"},
        "categories": ["travel", "hobbies"],
        "created_at": "2025-02-01T10:30:00.123456-08:00",
        "updated_at": "2025-03-01T10:30:00-08:00",
        "expiration_date": "2027-12-31",
    },
    {"id": "second", "memory": "Is vegetarian", "user_id": "sam", "created_at": "2025-02-02"},
    {"id": "third", "memory": "  "},
]


@pytest.mark.parametrize(
    "form",
    [
        lambda: {"results": MEM0, "relations": [{"source": "alex", "target": "train"}]},
        lambda: MEM0,
        lambda: "\n".join(json.dumps(each) for each in MEM0),
        lambda: {"count": 3, "memories": MEM0},
    ],
    ids=["get_all", "a list", "lines", "an export"],
)
async def test_mem0_memories_are_imported_once(
    engine: Engine, caller: Caller, tmp_path: Path, form: Any
) -> None:
    path = write_file(tmp_path / "mem0.json", form())

    report = await import_file(engine, caller, "mem0", path)
    again = await import_file(engine, caller, "mem0", path)

    train, vegetarian = await stored_memories(engine, caller)
    assert train["content"] == "Likes to travel by train"
    assert (train["subject"], train["tags"]) == ("alex", ["travel", "hobbies"])
    assert train["metadata"] == {"channel": "email", "agent_id": "planner"}
    assert train["created_at"].startswith("2025-02-01T18:30:00.123456")
    assert train["updated_at"].startswith("2025-03-01T18:30:00")
    assert train["expires_at"].startswith("2027-12-31")
    assert (vegetarian["content"], vegetarian["subject"]) == ("Is vegetarian", "sam")
    assert [each.where for each in report.refusals] == ["mem0.json, item 3"]
    assert (again.kept.total(), again.known["memory"]) == (0, 2)


def node(name: str, parent: str | None, children: list[str], message: Any = None) -> Object:
    return {"id": name, "message": message, "parent": parent, "children": children}


def a_message(name: str, role: str, text: Any, at: float | None, **more: Any) -> Object:
    content: Any = {"content_type": "text", "parts": [text]} if isinstance(text, str) else text
    return {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": content,
        "recipient": "all",
        "metadata": {},
        **more,
    }


# A question with two answers: the second, regenerated one was shown last.
CHATGPT: Object = {
    "id": "c-1",
    "conversation_id": "c-1",
    "title": "A trip to Oslo",
    "create_time": 1735725600.25,
    "update_time": 1735725900.0,
    "current_node": "n6",
    "mapping": {
        "root": node("root", None, ["sys"]),
        "sys": node(
            "sys",
            "root",
            ["n1"],
            a_message(
                "sys",
                "user",
                {
                    "content_type": "model_editable_context",
                    "model_set_context": "1. [2024-05-01]. Lives in Bergen\n\n2. Has two cats",
                },
                None,
            ),
        ),
        "n1": node(
            "n1", "sys", ["n2", "n3"], a_message("n1", "user", "How do I get there?", 1735725601)
        ),
        "n2": node("n2", "n1", [], a_message("n2", "assistant", "By car.", 1735725602)),
        "n3": node(
            "n3",
            "n1",
            ["n4"],
            a_message("n3", "assistant", "Wants to see Oslo", 1735725603, recipient="bio"),
        ),
        "n4": node(
            "n4", "n3", ["n5"], a_message("n4", "tool", "Model set context updated.", 1735725604)
        ),
        "n5": node(
            "n5",
            "n4",
            ["n6"],
            a_message(
                "n5",
                "assistant",
                {
                    "content_type": "multimodal_text",
                    "parts": ["By train.", {"content_type": "image_asset_pointer", "width": 1}],
                },
                1735725605,
                metadata={"model_slug": "gpt-5"},
            ),
        ),
        "n6": node("n6", "n5", [], a_message("n6", "user", "Thank you", None)),
    },
}
CYCLE: Object = {
    "id": "c-2",
    "title": "Has a cycle",
    "mapping": {
        "a": node("a", "b", ["b"], a_message("a", "user", "one", 1.0)),
        "b": node("b", "a", ["a"], a_message("b", "assistant", "two", 2.0)),
    },
}


async def test_chatgpt_imports_the_branch_shown_last_and_its_memories(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    path = tmp_path / "chatgpt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT, CYCLE, {"title": "empty"}, 7]))
        archive.writestr("chat.html", "<html>")

    report = await import_file(engine, caller, "chatgpt", path)
    found = await rows_of(engine, caller.workspace_id)
    again = await import_file(engine, caller, "chatgpt", path)

    thread = next(each for each in found["thread"] if each["name"] == "A trip to Oslo")
    assert thread["metadata"] == {
        "imported_from": "chatgpt",
        "conversation_id": "c-1",
        "scope": "workspace",
    }
    assert thread["created_at"].startswith("2025-01-01T10:00:00.25")
    messages = sorted(
        (each for each in found["message"] if each["thread_id"] == thread["id"]),
        key=lambda each: each["position"],
    )
    assert [(each["role"], each["content"], each["client_id"]) for each in messages] == [
        ("user", "How do I get there?", "n1"),
        ("assistant", "By train.\n[image]", "n5"),
        ("user", "Thank you", "n6"),
    ]
    assert messages[1]["metadata"] == {"model": "gpt-5"}
    assert messages[2]["created_at"] == messages[1]["created_at"]
    assert thread["message_count"] == 3
    assert {each["content"] for each in await stored_memories(engine, caller)} == {
        "Lives in Bergen",
        "Has two cats",
        "Wants to see Oslo",
    }
    assert report.left_out == {
        "messages of other branches": 1,
        "messages of tools and system": 2,
    }
    assert len(report.refusals) == 2
    assert again.kept.total() == 0
    # The segmenter makes memories of the messages, as of any thread.
    await Worker(engine, slots=2).run_until_empty()
    assert any(each["thread_id"] == thread["id"] for each in await stored_memories(engine, caller))


@pytest.mark.parametrize(("scope", "is_shared"), [("global", False), ("workspace", True)])
async def test_an_imported_chat_is_recalled_elsewhere_with_its_original_date(
    engine: Engine, caller: Caller, tmp_path: Path, scope: str, *, is_shared: bool
) -> None:
    path = write_file(tmp_path / "conversations.json", [CHATGPT])
    await import_file(engine, caller, "chatgpt", path, scope=Scope(scope))
    await Worker(engine, slots=2).run_until_empty()
    [thread] = (await rows_of(engine, caller.workspace_id))["thread"]
    colleague = replace(caller, user_id=UserId(uuid4()))

    async def recalled(by: Caller) -> list[Memory]:
        found = await recall(engine, by, Recall("the way to Oslo", limit=20))
        return [hit.memory for hit in found.hits if str(hit.memory.thread_id) == thread["id"]]

    async def memory_codes(by: Caller) -> set[str | None]:
        ask = ListMessages(limit=10)
        page = await list_messages(engine, by, Ref(id=UUID(thread["id"])), ask)
        return {each.memory_code for each in page.messages}

    [own] = await recalled(caller)
    said_at = datetime(2025, 1, 1, 10, 0, 5, tzinfo=UTC)
    assert (own.created_at, own.valid_from) == (said_at, said_at)
    assert own.updated_at == engine.now()
    assert await memory_codes(caller) == {own.code}
    assert await recalled(colleague) == ([own] if is_shared else [])
    assert await memory_codes(colleague) == {own.code if is_shared else None}
    # Deleting the chat deletes the memory.
    await delete_dashboard_chat(engine, caller, Ref(id=UUID(thread["id"])))
    assert await recalled(caller) == []


async def test_the_users_messages_are_learnt_from_once_on_request(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    conversation = {
        "uuid": "t",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "I live in Oslo.", "created_at": "2025-01-02"},
            {"uuid": "b", "sender": "assistant", "text": "I live in the cloud."},
        ],
    }
    path = write_file(tmp_path / "conversations.json", [conversation])

    for _ in range(2):
        await import_file(engine, caller, "claude", path, learns=True)
        await Worker(engine, slots=2).run_until_empty()

    learnt = [each for each in await stored_memories(engine, caller) if each["quote"]]
    assert [each["quote"] for each in learnt] == ["I live in Oslo."]
    assert learnt[0]["valid_from"].startswith("2025-01-02")


CLAUDE: list[Object] = [
    {
        "uuid": "7d1e",
        "name": "Garden",
        "summary": "",
        "created_at": "2025-04-01T08:00:00.000000Z",
        "updated_at": "2025-04-01T08:05:00.000000Z",
        "account": {"uuid": "me"},
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "What grows in shade?",
                "content": [{"type": "text", "text": "What grows in shade?"}],
                "created_at": "2025-04-01T08:00:01Z",
                "attachments": [
                    {"file_name": "plan.txt", "file_type": "txt", "extracted_content": "North wall"}
                ],
                "files": [{"file_name": "bed.jpg"}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "name": "search", "input": {}},
                    {"type": "text", "text": "Ferns do."},
                ],
                "created_at": "2025-04-01T08:00:09Z",
                "attachments": [],
                "files": [],
            },
            {"uuid": "m3", "sender": "assistant", "text": "", "content": []},
        ],
    }
]


async def test_claude_conversations_and_memories_are_imported_once(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    write_file(tmp_path / "conversations.json", CLAUDE)
    write_file(
        tmp_path / "memories.json",
        [
            {
                "conversations_memory": "**Work**\n\nBuilds garden sheds.\n\n- Prefers metric units",
                "project_memories": {"p-1": "The shed is red."},
                "account_uuid": "me",
            }
        ],
    )
    write_file(tmp_path / "projects.json", [{"uuid": "p-1", "name": "Shed", "docs": []}])

    report = await import_file(engine, caller, "claude", tmp_path)
    again = await import_file(engine, caller, "claude", tmp_path)

    found = await rows_of(engine, caller.workspace_id)
    [thread] = found["thread"]
    messages = sorted(found["message"], key=lambda each: each["position"])
    assert (thread["name"], thread["agent"]) == ("Garden", "claude")
    assert [(each["role"], each["content"]) for each in messages] == [
        ("user", "What grows in shade?\n\n[plan.txt]\nNorth wall\n\n[bed.jpg]"),
        ("assistant", "Ferns do."),
    ]
    memories = {each["content"]: each for each in await stored_memories(engine, caller)}
    assert set(memories) == {
        "**Work**",
        "Builds garden sheds.",
        "Prefers metric units",
        "The shed is red.",
    }
    assert memories["The shed is red."]["metadata"] == {"project": "p-1"}
    assert report.refused == {}
    assert report.left_out == {"messages without text": 1, "projects with their documents": 1}
    assert again.kept.total() == 0


async def test_langgraph_items_are_imported_once(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    items: list[Object] = [
        {
            "namespace": ["memories", "ada"],
            "key": "tea",
            "value": {"text": "Drinks tea", "kind": "preference"},
            "created_at": "2025-05-01T10:00:00+00:00",
            "updated_at": "2025-05-02T10:00:00+00:00",
            "score": None,
        },
        {
            "namespace": ["memories", "ada"],
            "key": "0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20",
            "value": {"kind": "Memory", "content": {"content": "Plays the cello"}},
        },
        # In the format of its PostgreSQL table.
        {"prefix": "users.7", "key": "limits", "value": '{"daily": 3}'},
        {"namespace": ["x"], "value": {}},
    ]
    path = write_file(tmp_path / "store.json", {"items": items})

    report = await import_file(engine, caller, "langgraph", path)
    again = await import_file(engine, caller, "langgraph", path)

    found = {each["content"]: each for each in await stored_memories(engine, caller)}
    assert set(found) == {"Drinks tea", "Plays the cello", '{"daily": 3}'}
    tea = found["Drinks tea"]
    assert (tea["key"], tea["category"], tea["kind"]) == ("tea", "preference", "preference")
    assert tea["tags"] == ["memories", "ada"]
    assert tea["importance"] == 0.7
    assert found["Plays the cello"]["key"] is None
    assert found['{"daily": 3}']["metadata"]["namespace"] == ["users", "7"]
    assert [each.where for each in report.refusals] == ["store.json, item 4"]
    assert again.kept.total() == 0


NOTES = """\
---
title: About me
date: 2025-06-01
tags: [private, home]
---
# People

Ada is my sister.
She lives in Oslo.

## Likes

- tea
  without milk
- [ ] long walks

  in the rain
1. chess

***

```python
# not a heading
```
Code that I keep.
"""


async def test_markdown_statements_are_imported_once(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    write_file(tmp_path / "notes" / "me.md", NOTES)
    write_file(tmp_path / "notes" / "same.md", "- tea\n- tea\n")
    write_file(tmp_path / "notes" / "photo.jpg", "no text")
    (tmp_path / "notes" / "odd.md").write_bytes(b"\xff\xfe\x00")

    report = await import_file(engine, caller, "markdown", tmp_path / "notes")
    again = await import_file(engine, caller, "markdown", tmp_path / "notes")

    found = {each["content"]: each for each in await stored_memories(engine, caller)}
    assert set(found) == {
        "Ada is my sister.\nShe lives in Oslo.",
        "tea\nwithout milk",
        "long walks\n\nin the rain",
        "chess",
        "```python\n# not a heading\n```\nCode that I keep.",
        "tea",
    }
    walks = found["long walks\n\nin the rain"]
    assert walks["tags"] == ["private", "home", "People", "Likes"]
    assert walks["source_note"] == "me.md › People › Likes"
    assert walks["created_at"].startswith("2025-06-01")
    assert (report.kept["memory"], again.kept["memory"]) == (7, 0)
    assert [(each.where, each.why) for each in report.refusals] == [
        ("odd.md", "`odd.md` is not UTF-8.")
    ]


def test_markdown_statements_have_their_headings_and_lines() -> None:
    text = "# A\none\n# B\n## C\ntwo\n# D\n***\n---\n| a |\n"

    assert [(each.text, each.headings, each.line) for each in statements(text)] == [
        ("one", ("A",), 2),
        ("two", ("B", "C"), 5),
        ("| a |", ("D",), 9),
    ]


async def test_csv_rows_are_imported_once(engine: Engine, caller: Caller, tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "table.csv",
        "﻿Text;Tags;Importance;Pinned;Created at;User;Colour\n"
        '"Drinks tea; no milk";drink,home;8;yes;2025-01-02;ada;red\n'
        '"Two\nlines";;0.25;;;;\n'
        ";;;;;;\n"
        ";;;;;bob;blue\n"
        "Too many;;;;;;;;\n"
        "Loud;;very;;;;\n"
        "Last;;;;;;\n",
    )

    report = await import_file(engine, caller, "csv", path)
    again = await import_file(engine, caller, "csv", path)

    found = {each["content"]: each for each in await stored_memories(engine, caller)}
    assert set(found) == {"Drinks tea; no milk", "Two\nlines", "Last"}
    tea = found["Drinks tea; no milk"]
    assert (tea["tags"], tea["pinned"], tea["subject"]) == (["drink", "home"], True, "ada")
    assert (tea["importance"], tea["metadata"]) == (0.8, {"Colour": "red"})
    assert tea["created_at"].startswith("2025-01-02")
    assert found["Two\nlines"]["importance"] == 0.25
    assert [(each.where, each.why) for each in report.refusals] == [
        ("table.csv, line 6", "it has no text"),
        ("table.csv, line 7", "it has 9 cells but only 7 columns"),
        ("table.csv, line 8", "`importance` is not a number from 0 to 10"),
    ]
    assert again.kept.total() == 0
    nameless = write_file(tmp_path / "nameless.csv", "a,b\n1,2\n")
    [refusal] = (await import_file(engine, caller, "csv", nameless)).refusals
    assert "has no column for the text" in refusal.why


@pytest.mark.parametrize("source", SOURCES)
async def test_an_invalid_file_never_causes_a_crash(
    engine: Engine, caller: Caller, tmp_path: Path, source: str
) -> None:
    name = {"markdown": "a.md", "csv": "a.csv"}.get(source, "conversations.json")
    for text in ("", "{", "[1, 2", "null", '{"a": 1}', "[[]]", "\x00", "[" * 50_000, "[{}]"):
        report = await import_file(engine, caller, source, write_file(tmp_path / name, text))

        assert report.kept["thread"] == 0


async def test_a_missing_file_or_a_zip_bomb_is_rejected(
    engine: Engine, caller: Caller, tmp_path: Path
) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * (80 * 1024 * 1024))

    for path in (bomb, tmp_path / "nowhere.zip"):
        with pytest.raises(Invalid):
            await import_file(engine, caller, "chatgpt", path)


def test_json_is_read_in_pieces_up_to_the_first_error() -> None:
    whole = [{"number": number, "text": "ü" * 400_000} for number in range(6)]

    assert list(read_values(BytesIO(json.dumps(whole).encode()))) == whole
    assert list(read_values(BytesIO(b"\xef\xbb\xbf {} \n[1]\n 12"))) == [{}, [1], 12]
    truncated = read_values(BytesIO(json.dumps(whole, ensure_ascii=False).encode()[:-5]))
    assert [next(truncated) for _ in whole[:-1]] == whole[:-1]
    with pytest.raises(UnreadableFile):
        next(truncated)
