"""`memory_delete` and the wear of memories, the same through every surface."""

from datetime import timedelta
from uuid import uuid4

import pytest

from recollect.domain import Caller, Right
from recollect.doors.tools import tools as functions
from recollect.doors.tools.wire import DeleteArguments
from recollect.engine.core import Engine
from recollect.engine.spaces import no_beat
from recollect.engine.wear import wear_down
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import key_for, new_caller, visit
from tests.support.tools import (
    TYPES,
    Refused,
    Surface,
    edges,
    recall,
    remember,
    row,
    rows,
    texts,
)

pytestmark = pytest.mark.anyio


async def test_R269_R273_a_forgotten_memory_is_marked_and_quoted(
    tools: Surface, engine: Engine
) -> None:
    saved = await remember(tools, "The gate code is 4711")

    answer = await tools.call("memory_delete", memory_id=saved, reason="changed")

    stored = await row(engine, saved)
    assert answer == {"forgotten": True, "message": "Forgotten: The gate code is 4711"}
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
async def test_R273_the_quote_is_the_first_line_cut_at_a_character(
    tools: Surface, content: str, quoted: str
) -> None:
    saved = await remember(tools, content)

    answer = await tools.call("memory_delete", memory_id=saved)

    assert answer["message"] == f"Forgotten: {quoted}"


async def test_R270_a_forgotten_memory_is_in_no_search_no_graph_and_no_link(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "The gate code is 4711": at_cosine(1.0),
        "Visitors ring twice": at_cosine(0.0, turn=1),
        "The gate code is 4712": at_cosine(0.99),
        "how do I get in": at_cosine(1.0),
    }
    gate = await remember(tools, "The gate code is 4711", memory_type="fact")
    visitors = await remember(
        tools, "Visitors ring twice", associations=[{"target_id": gate}], memory_type="todo"
    )

    await tools.call("memory_delete", memory_id=gate)

    for arguments in (
        {"query": "gate code 4711"},
        {"query": "how do I get in"},
        {"query": "visitors ring"},  # whose link leads to it
        {"mode": "recent"},
        {"mode": "recent", "include_history": True},
        {"mode": "important"},
        {"mode": "typed", "memory_type": "fact"},
    ):
        found = await tools.call("memory_recall", **arguments)
        assert gate not in [each["id"] for each in found["memories"]]
        assert "4711" not in found["summary"]
    await remember(tools, "The gate code is 4712")
    assert await edges(engine, caller.workspace_id) == {(visitors, "related_to", gate, 0.5)}


async def test_R271_the_id_is_needed_and_the_reason_is_not(tools: Surface) -> None:
    saved = await remember(tools, "The gate code is 4711")

    with pytest.raises(Refused, match="`memory_id` is required"):
        await tools.call("memory_delete", reason="because")
    for many in ([saved], {"all": True}, "*", ""):
        try:
            answer = await tools.call("memory_delete", memory_id=many)
        except Refused:
            continue
        assert answer["forgotten"] is False
    assert (await tools.call("memory_delete", memory_id=saved))["forgotten"] is True


async def test_R272_S84_the_reason_is_in_the_audit_and_in_no_answer(
    tools: Surface, engine: Engine, caller: Caller, server: Server
) -> None:
    reason = "because of the zeppelin"
    saved = await remember(tools, "The gate code is 4711")

    told = await tools.call("memory_delete", memory_id=saved, reason=reason)

    audited = "SELECT reason FROM event WHERE workspace_id = %s AND action = 'memory.forgotten'"
    assert await rows(engine, audited, caller.workspace_id) == [(reason,)]
    again = await tools.call("memory_delete", memory_id=saved, reason=reason)
    history = await tools.call("memory_recall", mode="recent", include_history=True)
    key = await key_for(engine, caller.workspace_id)
    async with visit(server, Authorization=f"Bearer {key}") as http:
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
    for each in [told, again, history, *(answer.text for answer in seen)]:
        assert "zeppelin" not in str(each)


async def test_R274_what_is_unknown_foreign_or_forgotten_answers_false(
    tools: Surface, engine: Engine
) -> None:
    saved = await remember(tools, "The gate code is 4711")
    stranger = await new_caller(engine)
    theirs = await functions.call(engine, stranger, "memory_save", {"content": "Not yours"})
    foreign = functions.shown(theirs)["memory_id"]
    await tools.call("memory_delete", memory_id=saved)

    answers = [
        await tools.call("memory_delete", memory_id=each)
        for each in (saved, foreign, str(uuid4()), "mem_aaaaaaaaaaaa", "no id at all")
    ]

    assert answers == [
        {
            "forgotten": False,
            "message": "There is no such memory, or it was forgotten before.",
        }
    ] * len(answers)
    assert (await row(engine, foreign))["deleted_at"] is None


async def test_every_spelling_of_an_id_is_taken(tools: Surface, engine: Engine) -> None:
    saved = [await remember(tools, f"number {number}") for number in range(4)]
    codes = [(await row(engine, each))["code"] for each in saved]

    answers = [
        await tools.call("memory_delete", memory_id=each)
        for each in (
            saved[0].upper(),
            f"mem_{codes[1]}",
            f"mem_{codes[2][:12]}",
            f"mem-{codes[3][:12]}",
        )
    ]

    assert [each["forgotten"] for each in answers] == [True] * 4


async def test_R276_forgetting_the_old_leaves_only_the_new(tools: Surface) -> None:
    old = await remember(tools, "Ana lives in Oslo")
    await remember(tools, "Ana lives in Bergen")

    await tools.call("memory_delete", memory_id=old, reason="Ana moved")

    assert await texts(tools, "where does Ana live") == ["Ana lives in Bergen"]


async def test_who_may_delete_and_not_read_is_shown_no_text(engine: Engine, caller: Caller) -> None:
    saved = await functions.call(engine, caller, "memory_save", {"content": "A secret"})
    blind = Caller(caller.org_id, caller.user_id, caller.workspace_id, frozenset({Right.DELETE}))

    given = DeleteArguments(memory_id=functions.shown(saved)["memory_id"])
    answer = await functions.memory_delete(engine, blind, given)

    assert answer.message == "Forgotten."


async def a_year(
    tools: Surface, engine: Engine, caller: Caller, clock: Clock, *, recalled: str | None = None
) -> None:
    """400 days with maintenance every tenth, and a daily recall of what is tagged so."""
    for day in range(1, 401):
        clock.advance(timedelta(days=1))
        if recalled and day > 380:
            await recall(tools, mode="recent", tags=[recalled])
        if day % 20 == 0:
            await wear_down(engine, caller.workspace_id, no_beat)


async def test_R246_R247_who_one_is_never_fades_and_stays_recallable(
    tools: Surface, engine: Engine, caller: Caller, clock: Clock
) -> None:
    saved = {
        kind: await remember(tools, f"Remember the {kind}", memory_type=kind, importance=0.6)
        for kind in TYPES
    }

    await a_year(tools, engine, caller, clock)

    worn = {kind: (await row(engine, each))["importance"] for kind, each in saved.items()}
    assert worn["identity"] == 0.6
    assert all(value < 0.6 for kind, value in worn.items() if kind != "identity")
    assert await texts(tools, mode="typed", memory_type="identity") == ["Remember the identity"]
    assert "Remember the identity" in await texts(tools, "remember the identity")


async def test_R264_what_is_recalled_often_gains_importance(
    tools: Surface, engine: Engine, caller: Caller, clock: Clock
) -> None:
    used = await remember(tools, "The gate code is 4711", tags=["used"])
    idle = await remember(tools, "The attic key is blue", tags=["idle"])

    await a_year(tools, engine, caller, clock, recalled="used")

    assert (await row(engine, used))["importance"] > 0.5 > (await row(engine, idle))["importance"]


async def test_R275_maintenance_keeps_what_was_forgotten(
    tools: Surface, engine: Engine, caller: Caller, clock: Clock
) -> None:
    saved = await remember(tools, "The gate code is 4711", importance=0.05)
    await tools.call("memory_delete", memory_id=saved)
    before = await row(engine, saved)

    await a_year(tools, engine, caller, clock)

    assert await row(engine, saved) == before
