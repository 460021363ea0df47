"""Save, edit, link, recall, forget, expire, decay, restore and delete, checked against a model.

The model is a dictionary for each of two workspaces. After any sequence of actions, the database
and the model must agree on what is current, what was true at a time, importances, and ownership.
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

from recollect.core.domain import Caller, Lifecycle, MemoryId, Ref, Relation, View
from recollect.core.errors import Invalid, NotFound
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine
from recollect.memories.decay import decayed_importance, idle
from recollect.memories.decay_job import run_decay
from recollect.memories.edit import EditMemory, edit
from recollect.memories.forget import forget, remove, restore
from recollect.memories.links import Link, link, reopen
from recollect.memories.save import Save, save
from recollect.search.hybrid import Search, SearchMode, SortOrder, search
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller, open_engine, single_embedder

T = TypeVar("T")


class Absence(Enum):
    """Why a memory is not visible."""

    FORGOTTEN = auto()
    DECAYED = auto()
    REPEATED = auto()
    DELETED = auto()


@dataclass(frozen=True)
class ModelMemory:
    """A memory in the model."""

    id: MemoryId
    content: str
    base: float
    importance: float
    created_at: datetime
    is_decaying: bool
    valid_from: datetime
    touched_at: datetime
    # Whether it was changed after it was saved.
    is_touched: bool = False
    expires_at: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: MemoryId | None = None
    away: Absence | None = None
    accesses: int = 0
    last_accessed_at: datetime | None = None

    @property
    def counts(self) -> bool:
        return self.away in {None, Absence.DECAYED}

    def is_live(self, now: datetime, view: View) -> bool:
        at = view.as_of or now
        is_true = self.valid_from <= at and (self.valid_until is None or self.valid_until > at)
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.away is None and not is_over and (view.is_history or is_true)

    def touched(self, at: datetime, **changes: Any) -> "ModelMemory":
        return replace(self, touched_at=at, is_touched=True, **changes)

    def importance_at(self, now: datetime) -> float:
        return decayed_importance(
            self.base,
            touched_at=self.touched_at,
            last_accessed_at=self.last_accessed_at,
            accesses=self.accesses,
            now=now,
        )


# Pairs of superseding and superseded memory, and since when.
Supersessions = dict[tuple[MemoryId, MemoryId], datetime]


def superseding(
    memory_id: MemoryId, memory: dict[MemoryId, ModelMemory], supersessions: Supersessions
) -> tuple[MemoryId | None, datetime | None]:
    """Return the first memory that supersedes this one and counts, through those that do not."""
    found: list[tuple[datetime, MemoryId]] = []
    queue, visited = [memory_id], {memory_id}
    while queue:
        here = queue.pop()
        for (source, target), at in supersessions.items():
            if target != here or source == memory_id:
                continue
            if memory[source].counts:
                found.append((at, source))
            elif source not in visited:
                visited.add(source)
                queue.append(source)
    at, source = min(found, default=(None, None))
    return source, at


def without_cycle(
    source: MemoryId, targets: set[MemoryId], supersessions: Supersessions
) -> Supersessions:
    """Drop the links that would form a cycle when `source` supersedes the targets."""
    below, queue = set(targets), list(targets)
    while queue:
        here = queue.pop()
        new = {end for start, end in supersessions if start == here} - below
        below |= new
        queue += new
    return {
        pair: at for pair, at in supersessions.items() if pair[0] not in below or pair[1] != source
    }


class MemoryMachine(RuleBasedStateMachine):
    """Random actions on two workspaces of one org."""

    database_url = ""
    memories: Bundle[tuple[int, MemoryId]] = Bundle("memories")
    forgotten: Bundle[tuple[int, MemoryId]] = Bundle("forgotten")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = Clock()
        self.model: list[dict[MemoryId, ModelMemory]] = [{}, {}]
        self.supersessions: list[Supersessions] = [{}, {}]
        self.callers: list[Caller] = []
        self.engine: Engine

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def open(self) -> None:
        instance = open_engine(
            self.database_url, single_embedder(StubEmbedder(dimension=64)), self.clock
        )
        self.engine = self.run(self.stack.enter_async_context(instance))
        self.callers = [self.run(new_caller(self.engine)) for _ in range(2)]

    def teardown(self) -> None:
        self.run(self.stack.aclose())
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
            links_similar=True,
        )
        saved = self.run(save(self.engine, self.callers[where], ask)).memory
        self.model[where][saved.id] = ModelMemory(
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

    def update_validity(self, where: int) -> None:
        """Update which statements are superseded, and by which."""
        for memory in list(self.model[where].values()):
            by, at = superseding(memory.id, self.model[where], self.supersessions[where])
            if by != memory.superseded_by:
                self.model[where][memory.id] = memory.touched(
                    self.clock.at, superseded_by=by, valid_until=at
                )

    @rule(which=memories, text=st.sampled_from(["tea without milk", "a run in Bergen"]))
    def change(self, which: tuple[int, MemoryId], text: str) -> None:
        where, memory_id = which
        memory = self.model[where][memory_id]
        if not memory.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises(NotFound):
                self.run(self._change(where, memory_id, text))
            return
        self.run(self._change(where, memory_id, text))
        if text != memory.content:
            self.model[where][memory_id] = memory.touched(self.clock.at, content=text)

    async def _change(self, where: int, memory_id: MemoryId, text: str) -> None:
        await edit(self.engine, self.callers[where], Ref(id=memory_id), EditMemory(content=text))

    @rule(one=memories, other=memories, relation=st.sampled_from(list(Relation)))
    def link(
        self, one: tuple[int, MemoryId], other: tuple[int, MemoryId], relation: Relation
    ) -> None:
        self.clock.advance(timedelta(seconds=1))
        where, source = one
        there, target = other
        call = link(
            self.engine, self.callers[where], Ref(id=source), Link(Ref(id=target), relation)
        )
        everything = View(is_history=True)
        memory = self.model[where].get(target)
        can_link = (
            where == there
            and self.model[where][source].is_live(self.clock.at, everything)
            and memory is not None
            and memory.is_live(self.clock.at, everything)
        )
        if not can_link or source == target:
            with pytest.raises((NotFound, Invalid)):
                self.run(call)
            return
        self.run(call)
        if relation is Relation.UPDATES:
            supersessions = without_cycle(source, {target}, self.supersessions[where])
            self.supersessions[where] = {(source, target): self.clock.at} | supersessions
            self.update_validity(where)

    @rule(which=memories)
    def reopen(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        memory = self.model[where][memory_id]
        call = reopen(self.engine, self.callers[where], Ref(id=memory_id))
        if memory.superseded_by is None or not memory.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises((NotFound, Invalid)):
                self.run(call)
            return
        self.run(call)
        self.supersessions[where] = {
            pair: at for pair, at in self.supersessions[where].items() if pair[1] != memory_id
        }
        self.update_validity(where)

    @rule(target=forgotten, which=memories)
    def forget(self, which: tuple[int, MemoryId]) -> tuple[int, MemoryId]:
        where, memory_id = which
        memory = self.model[where][memory_id]
        call = forget(self.engine, self.callers[where], Ref(id=memory_id))
        if not memory.is_live(self.clock.at, View(is_history=True)):
            with pytest.raises(NotFound):
                self.run(call)
            return which
        self.run(call)
        self.model[where][memory_id] = memory.touched(self.clock.at, away=Absence.FORGOTTEN)
        self.update_validity(where)
        return which

    @rule(which=st.one_of(forgotten, memories))
    def restore(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        memory = self.model[where][memory_id]
        call = restore(self.engine, self.callers[where], Ref(id=memory_id))
        is_over = memory.expires_at is not None and memory.expires_at <= self.clock.at
        if memory.away in {None, Absence.DELETED} or is_over:
            with pytest.raises(NotFound):
                self.run(call)
            return
        self.run(call)
        self.model[where][memory_id] = memory.touched(self.clock.at, away=None)
        self.update_validity(where)

    @rule(which=memories)
    def remove(self, which: tuple[int, MemoryId]) -> None:
        where, memory_id = which
        memory = self.model[where][memory_id]
        call = remove(self.engine, self.callers[where], Ref(id=memory_id))
        if memory.away is Absence.DELETED:
            with pytest.raises(NotFound):
                self.run(call)
            return
        self.run(call)
        supersessions = self.supersessions[where]
        inherited = {
            (above, below): at
            for (above, middle), at in supersessions.items()
            for (start, below) in supersessions
            if middle == start == memory_id
        }
        self.supersessions[where] = {
            pair: at for pair, at in (inherited | supersessions).items() if memory_id not in pair
        }
        self.model[where][memory_id] = replace(memory, away=Absence.DELETED)
        self.update_validity(where)

    @rule(which=memories)
    def act_from_another_workspace(self, which: tuple[int, MemoryId]) -> None:
        """Actions from another workspace change nothing."""
        where, memory_id = which
        for call in (forget, remove, restore, reopen):
            with pytest.raises(NotFound):
                self.run(call(self.engine, self.callers[1 - where], Ref(id=memory_id)))

    @rule(days=st.sampled_from([1, 8, 40, 100]))
    def advance_time(self, days: int) -> None:
        self.clock.advance(timedelta(days=days))

    @rule(where=st.integers(0, 1), times=st.integers(1, 2))
    def decay(self, where: int, times: int) -> None:
        for _ in range(times):  # once or twice is the same
            self.run(run_decay(self.engine, self.callers[where].workspace_id, no_heartbeat))
        self._merge(where)
        now = self.clock.at
        for memory in list(self.model[where].values()):
            if not memory.is_decaying or memory.away:
                continue
            decayed = replace(memory, importance=memory.importance_at(now))
            unused = idle(memory.touched_at, memory.last_accessed_at, now)
            if decayed.importance < 0.1 and unused > timedelta(days=90):
                decayed = decayed.touched(now, away=Absence.DECAYED)
            self.model[where][memory.id] = decayed

    def _merge(self, where: int) -> None:
        """Merge repeated statements into the newest, with their links and accesses."""
        now = self.clock.at
        current = [
            memory
            for memory in self.model[where].values()
            if memory.is_decaying and memory.is_live(now, View())
        ]
        for same in {(memory.content, memory.expires_at) for memory in current}:
            *older, newest = sorted(
                (memory for memory in current if (memory.content, memory.expires_at) == same),
                key=lambda memory: (memory.created_at, memory.id),
            )
            for memory in sorted(older, key=lambda memory: memory.id):
                if not memory.is_touched or newest.created_at > memory.touched_at:
                    self._merge_one(where, memory, newest.id)

    def _merge_one(self, where: int, memory: ModelMemory, newest_id: MemoryId) -> None:
        newest = self.model[where][newest_id]
        self.model[where][newest_id] = replace(
            newest,
            base=max(newest.base, memory.base),
            accesses=newest.accesses + memory.accesses,
            last_accessed_at=max(
                filter(None, (newest.last_accessed_at, memory.last_accessed_at)), default=None
            ),
            valid_from=min(newest.valid_from, memory.valid_from),
            touched_at=max(newest.touched_at, memory.touched_at),
        )
        self.model[where][memory.id] = memory.touched(
            self.clock.at, away=Absence.REPEATED, accesses=0
        )
        own = {
            target: at
            for (source, target), at in self.supersessions[where].items()
            if source == memory.id
        }
        supersessions = without_cycle(newest_id, set(own), self.supersessions[where])
        moved = {(newest_id, target): at for target, at in own.items()}
        self.supersessions[where] = moved | supersessions
        self.update_validity(where)

    @rule(where=st.integers(0, 1), which=memories)
    def recall(self, where: int, which: tuple[int, MemoryId]) -> None:
        content = self.model[which[0]][which[1]].content
        found = self.run(search(self.engine, self.callers[where], Search(query=content, limit=50)))
        live = {
            memory.id
            for memory in self.model[where].values()
            if memory.is_live(self.clock.at, View())
        }
        same = {memory.id for memory in self.model[where].values() if memory.content == content}
        ids = {finding.memory.id for finding in found.findings}

        assert ids <= live
        assert same & live <= ids
        for memory_id in ids:
            memory = self.model[where][memory_id]
            self.model[where][memory_id] = replace(
                memory, accesses=memory.accesses + 1, last_accessed_at=self.clock.at
            )

    @invariant()
    def database_and_model_agree(self) -> None:
        for where in range(len(self.callers)):
            for view in (
                View(),
                View(is_history=True),
                View(as_of=self.clock.at - timedelta(days=9)),
            ):
                self._check_view(where, view)

    def _check_view(self, where: int, view: View) -> None:
        ask = Search(
            mode=SearchMode.RECENT,
            order=SortOrder.RECENT,
            limit=10_000,
            view=view,
            counts_as_access=False,
        )
        found = self.run(search(self.engine, self.callers[where], ask))
        expected = [
            memory for memory in self.model[where].values() if memory.is_live(self.clock.at, view)
        ]
        expected.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)

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
            (memory.id, memory.content, memory.accesses, memory.valid_until, memory.superseded_by)
            for memory in expected
        ]
        assert [finding.memory.importance for finding in found.findings] == pytest.approx(
            [memory.importance for memory in expected]
        )
        assert found.total == len(expected)


class SupersessionMachine(RuleBasedStateMachine):
    """A few statements in one workspace, any of which may supersede any other."""

    database_url = ""

    def __init__(self) -> None:
        super().__init__()
        self.machine = MemoryMachine()
        self.saved: list[tuple[int, MemoryId]] = []

    @initialize()
    def save_first_statements(self) -> None:
        self.machine.database_url = self.database_url
        self.machine.open()
        for number in (0, 1, 2, 0):
            self.save_statement(number)

    def teardown(self) -> None:
        self.machine.teardown()

    @rule(number=st.integers(0, 2))
    def save_statement(self, number: int) -> None:
        self.machine.save(0, "tea", number, 0.5, True, None)
        self.saved.append((0, list(self.machine.model[0])[-1]))

    @rule(one=st.integers(0, 4), other=st.integers(0, 4))
    def replace(self, one: int, other: int) -> None:
        self.machine.link(self.which(one), self.which(other), Relation.UPDATES)

    @rule(one=st.integers(0, 4))
    def reopen(self, one: int) -> None:
        self.machine.reopen(self.which(one))

    @rule(one=st.integers(0, 4))
    def forget(self, one: int) -> None:
        self.machine.forget(self.which(one))

    @rule(one=st.integers(0, 4))
    def restore(self, one: int) -> None:
        self.machine.restore(self.which(one))

    @rule(one=st.integers(0, 4))
    def remove(self, one: int) -> None:
        self.machine.remove(self.which(one))

    @rule()
    def merge(self) -> None:
        self.machine.decay(0, 1)

    def which(self, one: int) -> tuple[int, MemoryId]:
        return self.saved[one % len(self.saved)]

    @invariant()
    def database_and_model_agree(self) -> None:
        self.machine.database_and_model_agree()

    @invariant()
    def every_chain_ends_in_a_current_statement(self) -> None:
        for memory in self.machine.model[0].values():
            visited: set[MemoryId] = set()
            last = memory
            while last.superseded_by:
                assert last.id not in visited
                visited.add(last.id)
                last = self.machine.model[0][last.superseded_by]


QUICK = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_the_database_agrees_with_a_plain_model(database_url: str) -> None:
    class RunMemoryMachine(MemoryMachine):
        pass

    RunMemoryMachine.database_url = database_url
    run_state_machine_as_test(RunMemoryMachine, settings=QUICK)


def test_supersession_agrees_with_a_plain_model(
    database_url: str,
) -> None:
    class RunSupersessionMachine(SupersessionMachine):
        pass

    RunSupersessionMachine.database_url = database_url
    run_state_machine_as_test(RunSupersessionMachine, settings=settings(QUICK, max_examples=25))
