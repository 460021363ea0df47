"""`memory_delete`, the same over every transport."""

import json
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest

from recollect.api.tools.tool import to_json
from recollect.api.tools.tools import TOOLS
from recollect.core.domain import Caller, MemoryId, Ref, Right
from recollect.engine import Engine
from recollect.memories.forget import restore
from recollect.server import Server
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import connect, key_for, new_caller
from tests.support.tools import (
    Surface,
    ToolRefused,
    fetch_rows,
    links_of,
    memory_row,
    recall_texts,
    save_memory,
)

pytestmark = pytest.mark.anyio


async def test_R269_R273_a_forgotten_memory_is_marked_and_quoted(
    tools: Surface, engine: Engine
) -> None:
    saved = await save_memory(tools, "The gate code is 4711")

    result = await tools.call("memory_delete", memory_id=saved, reason="changed")

    stored = await memory_row(engine, saved)
    assert result == {"forgotten": True, "message": "Forgotten: The gate code is 4711"}
    assert stored["content"] == "The gate code is 4711"
    assert stored["deleted_at"] == "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ("\n\n  First line  \nsecond line", "First line  "),
        ("a" * 81, "a" * 80 + "…"),
        ("a" * 80, "a" * 80),
        ("é" * 41, "é" * 40 + "…"),
        ("x" + "日" * 40, "x" + "日" * 26 + "…"),
    ],
)
async def test_R273_the_quote_is_the_first_line_cut_between_characters(
    tools: Surface, content: str, quoted: str
) -> None:
    saved = await save_memory(tools, content)

    result = await tools.call("memory_delete", memory_id=saved)

    assert result["message"] == f"Forgotten: {quoted}"


async def test_R270_a_forgotten_memory_is_not_found_by_search_or_links(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "The gate code is 4711": at_cosine(1.0),
        "Visitors ring twice": at_cosine(0.0, axis=1),
        "The gate code is 4712": at_cosine(0.99),
        "how do I get in": at_cosine(1.0),
    }
    gate = await save_memory(tools, "The gate code is 4711", memory_type="fact")
    visitors = await save_memory(
        tools, "Visitors ring twice", associations=[{"target_id": gate}], memory_type="todo"
    )

    await tools.call("memory_delete", memory_id=gate)

    for arguments in (
        {"query": "gate code 4711"},
        {"query": "how do I get in"},
        {"query": "visitors ring"},  # linked to the forgotten memory
        {"mode": "recent"},
        {"mode": "recent", "include_history": True},
        {"mode": "important"},
        {"mode": "typed", "memory_type": "fact"},
    ):
        found = await tools.call("memory_recall", **arguments)
        assert gate not in [each["id"] for each in found["memories"]]
        assert "4711" not in found["summary"]
    await save_memory(tools, "The gate code is 4712")
    assert await links_of(engine, caller.workspace_id) == {(visitors, "related_to", gate, 0.5)}


async def test_R271_the_id_is_required_and_the_reason_is_optional(tools: Surface) -> None:
    saved = await save_memory(tools, "The gate code is 4711")

    with pytest.raises(ToolRefused, match="`memory_id` is required"):
        await tools.call("memory_delete", reason="because")
    for invalid in ([saved], {"all": True}, "*", ""):
        try:
            result = await tools.call("memory_delete", memory_id=invalid)
        except ToolRefused:
            continue
        assert result["forgotten"] is False
    assert (await tools.call("memory_delete", memory_id=saved))["forgotten"] is True


async def test_R272_S84_the_reason_is_only_in_the_audit_log(
    tools: Surface, engine: Engine, caller: Caller, server: Server
) -> None:
    reason = "because of the zeppelin"
    saved = await save_memory(tools, "The gate code is 4711")

    deleted = await tools.call("memory_delete", memory_id=saved, reason=reason)

    audited = "SELECT reason FROM event WHERE workspace_id = %s AND action = 'memory.forgotten'"
    assert await fetch_rows(engine, audited, caller.workspace_id) == [(reason,)]
    again = await tools.call("memory_delete", memory_id=saved, reason=reason)
    history = await tools.call("memory_recall", mode="recent", include_history=True)
    key = await key_for(engine, caller.workspace_id)
    async with connect(server, Authorization=f"Bearer {key}") as http:
        seen = [
            await http.get(path)
            for path in (
                "/v1/traces",
                "/v1/memories",
                f"/v1/memories/{saved}",
                "/agents/memories?agent_id=default",
                "/agents/memories/graph?agent_id=default",
            )
        ]
    for each in [deleted, again, history, *(response.text for response in seen)]:
        assert "zeppelin" not in str(each)


async def test_R274_deleting_an_unknown_foreign_or_forgotten_memory_returns_false(
    tools: Surface, engine: Engine
) -> None:
    saved = await save_memory(tools, "The gate code is 4711")
    outsider = await new_caller(engine)
    theirs = await TOOLS["memory_save"].call(engine, outsider, {"content": "Not yours"})
    foreign = to_json(theirs)["memory_id"]
    await tools.call("memory_delete", memory_id=saved)

    results = [
        await tools.call("memory_delete", memory_id=each)
        for each in (saved, foreign, str(uuid4()), "mem_aaaaaaaaaaaa", "no id at all")
    ]

    assert results == [
        {
            "forgotten": False,
            "message": "There is no such memory, or it is already forgotten.",
        }
    ] * len(results)
    assert (await memory_row(engine, foreign))["deleted_at"] is None


@pytest.mark.parametrize(
    "several",
    ["*", "%", "all", "{one},{two}", ["{one}", "{two}"], {"ids": ["{one}"]}, True],
    ids=str,
)
async def test_S75_a_delete_takes_one_memory_only(
    tools: Surface, engine: Engine, several: Any
) -> None:
    one, two = [await save_memory(tools, text) for text in ("Ada drinks tea", "Grace sails")]
    asked = json.loads(json.dumps(several).replace("{one}", one).replace("{two}", two))

    with suppress(ToolRefused):
        assert not (await tools.call("memory_delete", memory_id=asked))["forgotten"]

    assert [(await memory_row(engine, each))["deleted_at"] for each in (one, two)] == [None, None]


async def test_S75_a_delete_by_a_model_can_be_undone(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    saved = await save_memory(tools, "Ada drinks tea")
    await tools.call("memory_delete", memory_id=saved)
    assert await recall_texts(tools, "Ada drinks tea") == []

    await restore(engine, caller, Ref(id=MemoryId(UUID(saved))))

    assert await recall_texts(tools, "Ada drinks tea") == ["Ada drinks tea"]


async def test_every_form_of_an_id_is_accepted(tools: Surface, engine: Engine) -> None:
    saved = [await save_memory(tools, f"number {number}") for number in range(4)]
    codes = [(await memory_row(engine, each))["code"] for each in saved]

    results = [
        await tools.call("memory_delete", memory_id=each)
        for each in (
            saved[0].upper(),
            f"mem_{codes[1]}",
            f"mem_{codes[2][:12]}",
            f"mem-{codes[3][:12]}",
        )
    ]

    assert [each["forgotten"] for each in results] == [True] * 4


async def test_R276_after_forgetting_the_old_only_the_new_is_found(tools: Surface) -> None:
    old = await save_memory(tools, "Ana lives in Oslo")
    await save_memory(tools, "Ana lives in Bergen")

    await tools.call("memory_delete", memory_id=old, reason="Ana moved")

    assert await recall_texts(tools, "where does Ana live") == ["Ana lives in Bergen"]


async def test_a_caller_without_the_read_right_sees_no_text(engine: Engine, caller: Caller) -> None:
    saved = await TOOLS["memory_save"].call(engine, caller, {"content": "A secret"})
    without_read = Caller(
        caller.org_id, caller.user_id, caller.workspace_id, frozenset({Right.DELETE})
    )

    arguments = {"memory_id": to_json(saved)["memory_id"]}
    result = await TOOLS["memory_delete"].call(engine, without_read, arguments)

    assert to_json(result)["message"] == "Forgotten."
