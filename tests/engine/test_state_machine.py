"""Save, change, link, recall, forget, expire, wear, restore and remove, against a plain model.

The model is a dictionary for each of two workspaces. Whatever the order of acts, the house and the
model must agree on what is current, what was true then, what is important, and what belongs to whom.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
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
from recollect.engine.decay import decayed, idle
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


class Away(Enum):
    """How a memory is not there."""

    FORGOTTEN = auto()
    WORN_OUT = auto()
    SAID_AGAIN = auto()
    REMOVED = auto()


@dataclass(frozen=True)
class Known:
    """What the model knows of a memory."""

    id: MemoryId
    content: str
    base: float
    importance: float
    created_at: datetime
    is_decaying: bool
    valid_from: datetime
    touched_at: datetime
    # Whether anybody did anything to it since it was saved.
    is_touched: bool = False
    expires_at: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: MemoryId | None = None
    away: Away | None = None
    accesses: int = 0
    last_accessed_at: datetime | None = None

    @property
    def stands(self) -> bool:
        return self.away in {None, Away.WORN_OUT}

    def is_live(self, now: datetime, view: View) -> bool:
        at = view.as_of or now
        is_true = self.valid_from <= at and (self.valid_until is None or self.valid_until > at)
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.away is None and not is_over and (view.is_history or is_true)

    def touched(self, at: datetime, **changes: Any) -> "Known":
        return replace(self, touched_at=at, is_touched=True, **changes)

    def today(self, now: datetime) -> float:
        return decayed(
            self.base,
            touched_at=self.touched_at,
            last_accessed_at=self.last_accessed_at,
            accesses=self.accesses,
            now=now,
        )


# Which statement replaces which, and since when.
Replacing = dict[tuple[MemoryId, MemoryId], datetime]


def closed_by(
    memory_id: MemoryId, known: dict[MemoryId, Known], replacing: Replacing
) -> tuple[MemoryId | None, datetime | None]:
    """The first that replaces a statement and stands, behind others that do not."""
    found: list[tuple[datetime, MemoryId]] = []
    ahead, met = [memory_id], {memory_id}
    while ahead:
        here = ahead.pop()
        for (source, target), at in replacing.items():
            if target != here or source == memory_id:
                continue
            if known[source].stands:
                found.append((at, source))
            elif source not in met:
                met.add(source)
                ahead.append(source)
    at, source = min(found, default=(None, None))
    return source, at


def turned_round(source: MemoryId, targets: set[MemoryId], replacing: Replacing) -> Replacing:
    """Without what would close the ring, when one statement is to replace others."""
    below, ahead = set(targets), list(targets)
    while ahead:
        here = ahead.pop()
        new = {end for begin, end in replacing if begin == here} - below
        below |= new
        ahead += new
    return {pair: at for pair, at in replacing.items() if pair[0] not in below or pair[1] != source}


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
        self.replacing: list[Replacing] = [{}, {}]
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
        number=st.integers(0, 3),
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
            valid_from=self.clock.at,
            touched_at=self.clock.at,
            expires_at=expires_at,
        )
        return where, saved.id

    def settle(self, where: int) -> None:
        """Have every statement closed by what replaces it now."""
        for known in list(self.model[where].values()):
            by, at = closed_by(known.id, self.model[where], self.replacing[where])
            if by != known.superseded_by:
                self.model[where][known.id] = known.touched(
                    self.clock.at, superseded_by=by, valid_until=at
                )

    @rule(which=memories, text=st.sampled_from(["tea without milk", "a run in Bergen"]))
    def change(self, which: tuple[int, MemoryId], text: str) -> None:
        where, memory_id = which
        known = self.model[where][memory_id]
        if not known.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises(NotFound):
                self.do(self._change(where, memory_id, text))
            return
        self.do(self._change(where, memory_id, text))
        if text != known.content:
            self.model[where][memory_id] = known.touched(self.clock.at, content=text)

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
        if relation is Relation.UPDATES:
            replacing = turned_round(source, {target}, self.replacing[where])
            self.replacing[where] = {(source, target): self.clock.at} | replacing
            self.settle(where)

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
        self.replacing[where] = {
            pair: at for pair, at in self.replacing[where].items() if pair[1] != memory_id
        }
        self.settle(where)

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
        self.model[where][memory_id] = known.touched(self.clock.at, away=Away.FORGOTTEN)
        self.settle(where)
        return which

    @rule(which=st.one_of(forgotten, memories))
    def restore(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        known = self.model[where][memory_id]
        act = restore(self.engine, self.callers[where], Ref(id=memory_id))
        is_over = known.expires_at is not None and known.expires_at <= self.clock.at
        if known.away in {None, Away.REMOVED} or is_over:
            with pytest.raises(NotFound):
                self.do(act)
            return
        self.do(act)
        self.model[where][memory_id] = known.touched(self.clock.at, away=None)
        self.settle(where)

    @rule(which=memories)
    def remove(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        known = self.model[where][memory_id]
        act = remove(self.engine, self.callers[where], Ref(id=memory_id))
        if known.away is Away.REMOVED:
            with pytest.raises(NotFound):
                self.do(act)
            return
        self.do(act)
        replacing = self.replacing[where]
        heirs = {
            (above, below): at
            for (above, middle), at in replacing.items()
            for (begin, below) in replacing
            if middle == begin == memory_id
        }
        self.replacing[where] = {
            pair: at for pair, at in (heirs | replacing).items() if memory_id not in pair
        }
        self.model[where][memory_id] = replace(known, away=Away.REMOVED)
        self.settle(where)

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

    @rule(where=st.integers(0, 1), times=st.integers(1, 2))
    def wear(self, where: int, times: int) -> None:
        for _ in range(times):  # once or twice is the same
            self.do(wear_down(self.engine, self.callers[where].workspace_id, no_beat))
        self._merge(where)
        now = self.clock.at
        for known in list(self.model[where].values()):
            if not known.is_decaying or known.away:
                continue
            worn = replace(known, importance=known.today(now))
            unused = idle(known.touched_at, known.last_accessed_at, now)
            if worn.importance < 0.1 and unused > timedelta(days=90):
                worn = worn.touched(now, away=Away.WORN_OUT)
            self.model[where][known.id] = worn

    def _merge(self, where: int) -> None:
        """The same words, said again since, become the newest, and all that hung on them."""
        now = self.clock.at
        current = [
            known
            for known in self.model[where].values()
            if known.is_decaying and known.is_live(now, View())
        ]
        for same in {(known.content, known.expires_at) for known in current}:
            *older, newest = sorted(
                (known for known in current if (known.content, known.expires_at) == same),
                key=lambda known: (known.created_at, known.id),
            )
            for known in sorted(older, key=lambda known: known.id):
                if not known.is_touched or newest.created_at > known.touched_at:
                    self._merge_one(where, known, newest.id)

    def _merge_one(self, where: int, known: Known, newest_id: MemoryId) -> None:
        newest = self.model[where][newest_id]
        self.model[where][newest_id] = replace(
            newest,
            base=max(newest.base, known.base),
            accesses=newest.accesses + known.accesses,
            last_accessed_at=max(
                filter(None, (newest.last_accessed_at, known.last_accessed_at)), default=None
            ),
            valid_from=min(newest.valid_from, known.valid_from),
            touched_at=max(newest.touched_at, known.touched_at),
        )
        self.model[where][known.id] = known.touched(self.clock.at, away=Away.SAID_AGAIN, accesses=0)
        own = {
            target: at
            for (source, target), at in self.replacing[where].items()
            if source == known.id
        }
        replacing = turned_round(newest_id, set(own), self.replacing[where])
        handed_on = {(newest_id, target): at for target, at in own.items()}
        self.replacing[where] = handed_on | replacing
        self.settle(where)

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
            (
                finding.memory.id,
                finding.memory.content,
                finding.memory.access_count,
                finding.memory.valid_until,
                finding.memory.superseded_by,
            )
            for finding in found.findings
        ] == [
            (known.id, known.content, known.accesses, known.valid_until, known.superseded_by)
            for known in expected
        ]
        assert [finding.memory.importance for finding in found.findings] == pytest.approx(
            [known.importance for known in expected]
        )
        assert found.total == len(expected)


class Quarrel(RuleBasedStateMachine):
    """A handful of statements of one workspace, each of which may be said to replace any other."""

    database_url = ""

    def __init__(self) -> None:
        super().__init__()
        self.house = House()
        self.said: list[tuple[int, MemoryId]] = []

    @initialize()
    def begin(self) -> None:
        self.house.database_url = self.database_url
        self.house.move_in()
        for number in (0, 1, 2, 0):
            self.say(number)

    def teardown(self) -> None:
        self.house.teardown()

    @rule(number=st.integers(0, 2))
    def say(self, number: int) -> None:
        self.house.save(0, "tea", number, 0.5, True, None)
        self.said.append((0, list(self.house.model[0])[-1]))

    @rule(one=st.integers(0, 4), other=st.integers(0, 4))
    def replace(self, one: int, other: int) -> None:
        self.house.link(self.which(one), self.which(other), Relation.UPDATES)

    @rule(one=st.integers(0, 4))
    def reopen(self, one: int) -> None:
        self.house.reopen(self.which(one))

    @rule(one=st.integers(0, 4))
    def forget(self, one: int) -> None:
        self.house.forget(self.which(one))

    @rule(one=st.integers(0, 4))
    def restore(self, one: int) -> None:
        self.house.restore(self.which(one))

    @rule(one=st.integers(0, 4))
    def remove(self, one: int) -> None:
        self.house.remove(self.which(one))

    @rule()
    def merge(self) -> None:
        self.house.wear(0, 1)

    def which(self, one: int) -> tuple[int, MemoryId]:
        return self.said[one % len(self.said)]

    @invariant()
    def the_house_and_the_model_agree(self) -> None:
        self.house.the_house_and_the_model_agree()

    @invariant()
    def something_is_current_wherever_something_was_replaced(self) -> None:
        for known in self.house.model[0].values():
            met: set[MemoryId] = set()
            last = known
            while last.superseded_by:
                assert last.id not in met
                met.add(last.id)
                last = self.house.model[0][last.superseded_by]


QUICK = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_the_house_agrees_with_a_plain_model_of_it(database_url: str) -> None:
    class Here(House):
        pass

    Here.database_url = database_url
    run_state_machine_as_test(Here, settings=QUICK)


def test_what_replaces_what_agrees_with_a_plain_model_whatever_is_taken_back(
    database_url: str,
) -> None:
    class Here(Quarrel):
        pass

    Here.database_url = database_url
    run_state_machine_as_test(Here, settings=settings(QUICK, max_examples=25))
