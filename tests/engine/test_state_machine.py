"""Save, change, link, recall, forget, expire, wear and restore over two workspaces, against a model.

The model is a plain dictionary. Whatever the order of acts, the house and the model must agree on
what is current, what was true then, what is important, and what belongs to whom.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from recollect.domain import Caller, Lifecycle, MemoryId, Ref, Relation, View
from recollect.engine.change import Change, change
from recollect.engine.core import Engine
from recollect.engine.decay import decayed
from recollect.engine.forget import forget, remove, restore
from recollect.engine.link import Link, link, reopen
from recollect.engine.save import Save, save
from recollect.engine.search import Mode, Order, Search, search
from recollect.engine.spaces import no_beat
from recollect.engine.wear import wear_down
from recollect.errors import Invalid, NotFound
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import new_caller, only, open_house

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """What the model knows of a memory."""

    id: MemoryId
    content: str
    base: float
    importance: float
    created_at: datetime
    is_decaying: bool
    expires_at: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: MemoryId | None = None
    is_forgotten: bool = False
    accesses: int = 0
    last_accessed_at: datetime | None = None

    def is_live(self, now: datetime, view: View) -> bool:
        at = view.as_of or now
        is_true = self.created_at <= at and (self.valid_until is None or self.valid_until > at)
        is_over = self.expires_at is not None and self.expires_at <= now
        return not self.is_forgotten and not is_over and (view.is_history or is_true)


class House(RuleBasedStateMachine):
    """Acts at random on two workspaces of one org."""

    database_url = ""
    memories: Bundle[tuple[int, MemoryId]] = Bundle("memories")
    forgotten: Bundle[tuple[int, MemoryId]] = Bundle("forgotten")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = Clock()
        self.model: list[dict[MemoryId, Known]] = [{}, {}]
        self.callers: list[Caller] = []
        self.engine: Engine

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(act)

    @initialize()
    def move_in(self) -> None:
        house = open_house(self.database_url, only(StubEmbedder(dimension=64)), self.clock)
        self.engine = self.do(self.stack.enter_async_context(house))
        self.callers = [self.do(new_caller(self.engine)) for _ in range(2)]

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()

    @rule(
        target=memories,
        where=st.integers(0, 1),
        text=st.sampled_from(
            ["tea", "coffee", "Oslo", "Bergen", "marathons", "猫が好き", "ERR_4711"]
        ),
        number=st.integers(0, 10_000),
        importance=st.sampled_from([0.05, 0.3, 0.5, 0.9]),
        is_decaying=st.booleans(),
        lives=st.sampled_from([None, 1, 50]),
    )
    def save(
        self,
        where: int,
        text: str,
        number: int,
        importance: float,
        is_decaying: bool,  # noqa: FBT001
        lives: int | None,
    ) -> tuple[int, MemoryId]:
        self.clock.advance(timedelta(seconds=1))
        content = f"{text} number{number}"
        expires_at = None if lives is None else self.clock.at + timedelta(days=lives)
        ask = Save(
            content,
            importance=importance,
            lifecycle=Lifecycle.DECAYING if is_decaying else Lifecycle.PERMANENT,
            expires_at=expires_at,
            links_alike=True,
        )
        saved = self.do(save(self.engine, self.callers[where], ask)).memory
        self.model[where][saved.id] = Known(
            saved.id,
            content,
            importance,
            importance,
            self.clock.at,
            is_decaying,
            expires_at,
        )
        return where, saved.id

    @rule(which=memories, text=st.sampled_from(["tea without milk", "a run in Bergen"]))
    def change(self, which: tuple[int, MemoryId], text: str) -> None:
        where, memory_id = which
        known = self.model[where][memory_id]
        if not known.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises(NotFound):
                self.do(self._change(where, memory_id, text))
            return
        self.do(self._change(where, memory_id, text))
        self.model[where][memory_id] = replace(known, content=text)

    async def _change(self, where: int, memory_id: MemoryId, text: str) -> None:
        await change(self.engine, self.callers[where], Ref(id=memory_id), Change(content=text))

    @rule(one=memories, other=memories, relation=st.sampled_from(list(Relation)))
    def link(
        self, one: tuple[int, MemoryId], other: tuple[int, MemoryId], relation: Relation
    ) -> None:
        self.clock.advance(timedelta(seconds=1))
        where, source = one
        there, target = other
        act = link(self.engine, self.callers[where], Ref(id=source), Link(Ref(id=target), relation))
        everything = View(is_history=True)
        known = self.model[where].get(target)
        are_there = (
            where == there
            and self.model[where][source].is_live(self.clock.at, everything)
            and known is not None
            and known.is_live(self.clock.at, everything)
        )
        if not are_there or source == target:
            with pytest.raises((NotFound, Invalid)):
                self.do(act)
            return
        self.do(act)
        assert known
        if relation is Relation.UPDATES and (
            known.valid_until is None or known.valid_until > self.clock.at
        ):
            self.model[where][target] = replace(
                known, valid_until=self.clock.at, superseded_by=source
            )

    @rule(which=memories)
    def reopen(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        known = self.model[where][memory_id]
        act = reopen(self.engine, self.callers[where], Ref(id=memory_id))
        if known.superseded_by is None or not known.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises((NotFound, Invalid)):
                self.do(act)
            return
        self.do(act)
        self.model[where][memory_id] = replace(known, valid_until=None, superseded_by=None)

    @rule(target=forgotten, which=memories)
    def forget(self, which: tuple[int, MemoryId]) -> tuple[int, MemoryId]:
        where, memory_id = which
        known = self.model[where][memory_id]
        act = forget(self.engine, self.callers[where], Ref(id=memory_id))
        if not known.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises(NotFound):
                self.do(act)
            return which
        self.do(act)
        self.model[where][memory_id] = replace(known, is_forgotten=True)
        return which

    @rule(which=forgotten)
    def restore(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        known = self.model[where].get(memory_id)
        act = restore(self.engine, self.callers[where], Ref(id=memory_id))
        is_over = known and known.expires_at is not None and known.expires_at <= self.clock.at
        if known is None or not known.is_forgotten or is_over:
            with pytest.raises(NotFound):
                self.do(act)
            return
        self.do(act)
        self.model[where][memory_id] = replace(known, is_forgotten=False)

    @rule(which=memories)
    def forget_for_another(self, which: tuple[int, MemoryId]) -> None:
        """A stranger's hand changes nothing."""
        where, memory_id = which
        for act in (forget, remove, restore, reopen):
            with pytest.raises(NotFound):
                self.do(act(self.engine, self.callers[1 - where], Ref(id=memory_id)))

    @rule(days=st.sampled_from([1, 8, 40, 100]))
    def time_passes(self, days: int) -> None:
        self.clock.advance(timedelta(days=days))

    @rule(where=st.integers(0, 1))
    def wear(self, where: int) -> None:
        for _ in range(2):  # once or twice is the same
            self.do(wear_down(self.engine, self.callers[where].workspace_id, no_beat))
        now = self.clock.at
        for known in list(self.model[where].values()):
            if not known.is_decaying or known.is_forgotten:
                continue
            today = decayed(
                known.base,
                created_at=known.created_at,
                last_accessed_at=known.last_accessed_at,
                accesses=known.accesses,
                now=now,
            )
            unused = now - (known.last_accessed_at or known.created_at)
            is_worn_out = today < 0.1 and unused > timedelta(days=90)
            self.model[where][known.id] = replace(known, importance=today, is_forgotten=is_worn_out)
        self._merge(where)

    def _merge(self, where: int) -> None:
        """The same words kept twice become the newest; its uses are theirs together."""
        now = self.clock.at
        current = [
            known
            for known in self.model[where].values()
            if known.is_decaying
            and not known.is_forgotten
            and (known.valid_until is None or known.valid_until > now)
            and (known.expires_at is None or known.expires_at > now)
        ]
        for content in {known.content for known in current}:
            same = sorted(
                (known for known in current if known.content == content),
                key=lambda known: (known.created_at, known.id),
            )
            *older, newest = same
            for known in older:
                self.model[where][known.id] = replace(known, is_forgotten=True)
            accesses = sum(known.accesses for known in same)
            self.model[where][newest.id] = replace(newest, accesses=accesses)
            if older:
                # Its new uses count from the next time on.
                self.do(wear_down(self.engine, self.callers[where].workspace_id, no_beat))
                kept = self.model[where][newest.id]
                today = decayed(
                    kept.base,
                    created_at=kept.created_at,
                    last_accessed_at=kept.last_accessed_at,
                    accesses=kept.accesses,
                    now=now,
                )
                self.model[where][newest.id] = replace(kept, importance=today)

    @rule(where=st.integers(0, 1), which=memories)
    def recall(self, where: int, which: tuple[int, MemoryId]) -> None:
        content = self.model[which[0]][which[1]].content
        found = self.do(search(self.engine, self.callers[where], Search(query=content, limit=50)))
        live = {
            known.id for known in self.model[where].values() if known.is_live(self.clock.at, View())
        }
        same = {known.id for known in self.model[where].values() if known.content == content}
        ids = {finding.memory.id for finding in found.findings}

        assert ids <= live
        assert same & live <= ids
        for memory_id in ids:
            known = self.model[where][memory_id]
            self.model[where][memory_id] = replace(
                known, accesses=known.accesses + 1, last_accessed_at=self.clock.at
            )

    @invariant()
    def the_house_and_the_model_agree(self) -> None:
        for where in range(len(self.callers)):
            for view in (
                View(),
                View(is_history=True),
                View(as_of=self.clock.at - timedelta(days=9)),
            ):
                self._agree(where, view)

    def _agree(self, where: int, view: View) -> None:
        ask = Search(
            mode=Mode.RECENT, order=Order.RECENT, limit=10_000, view=view, counts_as_access=False
        )
        found = self.do(search(self.engine, self.callers[where], ask))
        expected = [
            known for known in self.model[where].values() if known.is_live(self.clock.at, view)
        ]
        expected.sort(key=lambda known: (known.created_at, known.id), reverse=True)

        assert [
            (finding.memory.id, finding.memory.content, finding.memory.access_count)
            for finding in found.findings
        ] == [(known.id, known.content, known.accesses) for known in expected]
        assert [finding.memory.importance for finding in found.findings] == pytest.approx(
            [known.importance for known in expected]
        )
        assert found.total == len(expected)


def test_the_house_agrees_with_a_plain_model_of_it(database_url: str) -> None:
    class Here(House):
        pass

    Here.database_url = database_url
    quick = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(Here, settings=quick)
