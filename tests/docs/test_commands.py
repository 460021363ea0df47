"""Runs every block marked `run` in a shell against a fresh server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown_docs import Block, MarkdownFile, Step, documents, matches, script, steps
from tests.support.serve_process import ServeProcess, running_server

DOCUMENTED_ADDRESS = "127.0.0.1:8484"
ALLOWED = ("curl ", "recollect ", "python ", "export ", "make serve")
_ASSIGNMENT = re.compile(r"export (\w+)=(\S+)")
_PLACEHOLDER = re.compile(r"\b([a-z]+[_-])…")

RUNNABLE = [document for document in documents() if document.runnable_blocks]


class Reader:
    """A reader who types the document's commands into a terminal."""

    def __init__(self, server: ServeProcess, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._printed = ""
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "RECOLLECT_DATA_DIR": str(server.data_dir),
            "RECOLLECT_LOG_LEVEL": "warning",
            "KEY": server.key,
        }
        # Without a terminal curl prints a progress meter.
        (directory / ".curlrc").write_text("silent\nshow-error\n")

    def follow(self, block: Block) -> None:
        if block.language == "python":
            self._check(block, script(block), self._run([sys.executable, "-c", block.text]))
            return
        for step in steps(block):
            self._check(block, step, self._type(step.command))

    def _type(self, command: str) -> str:
        assert command.startswith(ALLOWED), f"not allowed in the documents: {command}"
        command = _PLACEHOLDER.sub(self._last_printed, command)
        if command == "make serve":
            return self._record(self._server.output)
        if assigned := _ASSIGNMENT.fullmatch(command):
            self._environment[assigned[1]] = assigned[2]
            return ""
        return self._run(["bash", "-c", command])

    def _run(self, command: list[str]) -> str:
        here = self._server.url.removeprefix("http://")
        done = subprocess.run(
            [part.replace(DOCUMENTED_ADDRESS, here) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=self._directory,
            env=self._environment,
            check=False,
        )
        return self._record(done.stdout)

    def _record(self, output: str) -> str:
        output = output.replace(self._server.url.removeprefix("http://"), DOCUMENTED_ADDRESS)
        self._printed += output
        return output

    def _last_printed(self, placeholder: re.Match[str]) -> str:
        found = re.findall(rf"\b{placeholder[1]}[\w-]+", self._printed)
        assert found, f"no earlier output matches {placeholder[0]}"
        return found[-1]

    @staticmethod
    def _check(block: Block, step: Step, output: str) -> None:
        assert matches(output, step.expected), (
            f"line {block.line}: $ {step.command}\nprinted:\n{output.strip()}\n"
            f"documented:\n{step.expected}"
        )


@pytest.mark.parametrize("document", RUNNABLE, ids=[document.name for document in RUNNABLE])
def test_documented_commands_print_the_documented_output(
    document: MarkdownFile, tmp_path: Path
) -> None:
    # On a busy machine a save could miss the deadline and report that its vector comes later.
    with running_server(RECOLLECT_EMBEDDING_DEADLINE_MS="30000") as server:
        reader = Reader(server, tmp_path)
        for block in document.runnable_blocks:
            reader.follow(block)


def test_the_readme_has_runnable_commands() -> None:
    assert "README.md" in [document.name for document in RUNNABLE]
