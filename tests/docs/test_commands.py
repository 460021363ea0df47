"""Every block marked `run` is typed into a shell in front of a fresh server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import Block, Document, Step, documents, fits, script, steps
from tests.support.running import Running, running_house

WRITTEN = "127.0.0.1:8484"
ALLOWED = ("curl ", "recollect ", "python ", "export ", "make serve")
_ASSIGNMENT = re.compile(r"export (\w+)=(\S+)")
_PLACEHOLDER = re.compile(r"\b([a-z]+_)…")

RUN = [document for document in documents() if document.to_run]


class Reader:
    """Somebody at a terminal who types what the document says."""

    def __init__(self, house: Running, desk: Path) -> None:
        self._house = house
        self._desk = desk
        self._seen = ""
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(desk),
            "LANG": "C.UTF-8",
            "RECOLLECT_DATA_DIR": str(house.data_dir),
            "RECOLLECT_LOG_LEVEL": "warning",
            "KEY": house.key,
        }
        # In a terminal curl draws no progress bar; here it would.
        (desk / ".curlrc").write_text("silent\nshow-error\n")

    def follow(self, block: Block) -> None:
        if block.language == "python":
            self._check(block, script(block), self._run([sys.executable, "-c", block.text]))
            return
        for step in steps(block):
            self._check(block, step, self._type(step.command))

    def _type(self, command: str) -> str:
        assert command.startswith(ALLOWED), f"not a newcomer's command: {command}"
        command = _PLACEHOLDER.sub(self._last, command)
        if command == "make serve":
            return self._noted(self._house.output)
        if assigned := _ASSIGNMENT.fullmatch(command):
            self._environment[assigned[1]] = assigned[2]
            return ""
        return self._run(["bash", "-c", command])

    def _run(self, command: list[str]) -> str:
        here = self._house.url.removeprefix("http://")
        done = subprocess.run(
            [part.replace(WRITTEN, here) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=self._desk,
            env=self._environment,
            check=False,
        )
        return self._noted(done.stdout)

    def _noted(self, output: str) -> str:
        output = output.replace(self._house.url.removeprefix("http://"), WRITTEN)
        self._seen += output
        return output

    def _last(self, placeholder: re.Match[str]) -> str:
        found = re.findall(rf"\b{placeholder[1]}[\w-]+", self._seen)
        assert found, f"nothing was printed yet that {placeholder[0]} could stand for"
        return found[-1]

    @staticmethod
    def _check(block: Block, step: Step, output: str) -> None:
        assert fits(output, step.expected), (
            f"line {block.line}: $ {step.command}\nprinted:\n{output.strip()}\n"
            f"written:\n{step.expected}"
        )


@pytest.mark.parametrize("document", RUN, ids=[document.name for document in RUN])
def test_what_is_documented_happens(document: Document, tmp_path: Path) -> None:
    # A busy machine must not make a save answer that its vector comes later.
    with running_house(RECOLLECT_EMBEDDING_DEADLINE_MS="30000") as house:
        reader = Reader(house, tmp_path)
        for block in document.to_run:
            reader.follow(block)


def test_the_readme_is_among_them() -> None:
    assert "README.md" in [document.name for document in RUN]
