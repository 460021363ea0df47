"""`recollect segment`: show how a chat is divided into segments, and divide it again."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from recollect.cli import main
from recollect.compose import open_database, open_engine
from recollect.core.settings import Settings
from recollect.tenancy.keys import first_run, operator_caller
from tests.support.conversations import add_messages, new_chat
from tests.support.database import TestDatabases


@dataclass(frozen=True, slots=True)
class SegmentedChat:
    url: str
    code: str


@pytest.fixture
def chat(
    databases: TestDatabases, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> SegmentedChat:
    url = databases.clone()

    async def talk() -> str:
        settings = Settings(database_url=url, data_dir=tmp_path)
        async with open_database(settings) as database, open_engine(settings, database) as engine:
            await first_run(engine)
            caller = await operator_caller(engine)
            thread = await new_chat(engine, caller)
            texts = [f"Point {n} of the quarterly revenue plan for Lisbon" for n in range(8)]
            await add_messages(engine, caller, thread, *texts)
            return thread.code

    code = asyncio.run(talk())
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("RECOLLECT_SEGMENT_MESSAGES", "6")
    monkeypatch.setenv("RECOLLECT_SEGMENT_TIE", "0")
    monkeypatch.chdir(tmp_path)
    return SegmentedChat(url, code)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["segment", *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out + printed.err


def test_a_dry_run_shows_each_segment_with_its_reason(
    chat: SegmentedChat, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(capsys, f"chat-{chat.code[:12]}", "--dry-run")

    assert code == 0
    lines = [re.sub(r"\s+", " ", line.strip()) for line in printed.splitlines()]
    assert lines == ["1-6 length_threshold 6 messages", "7-8 open not closed yet"]


def test_segmenting_again_replaces_the_earlier_memories(
    chat: SegmentedChat, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(capsys, chat.code)
    again = run(capsys, chat.code)

    assert "0 memories replaced" in first[1]
    assert "1 memories replaced" in again[1]


def test_an_unknown_chat_is_a_failure(
    chat: SegmentedChat, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "chat-aaaaaaaaaaaa")[0] == 1
    assert run(capsys, "nonsense!")[0] == 1
