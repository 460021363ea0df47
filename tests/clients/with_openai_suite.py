"""The tests that OpenAI's client for Python brings along, run against us: `make clients`.

They are in its source distribution, which `make clients` fetches; nothing of it is kept here. They
check every answer strictly, and present the key `My API Key`.
"""

import hashlib
import os
import re
import subprocess
import tarfile
from pathlib import Path

import openai
import psycopg
import pytest

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import live_server, on_a_port
from tests.support.upstream import Endpoint, chats_of

FETCHED = Path(__file__).parents[2] / ".clients"
TESTS = "tests/api_resources"
NAMED = re.compile(r'(?:model=|retrieve\(\s*)"([^"]+)"')
PYTHON = FETCHED / "venv" / "bin" / "python"
# Of each file what is served here: no stored completions, no fine-tuned models to delete. Their
# requests for responses say nothing at all or name what nobody made, and those for embeddings ask
# for base64 and expect numbers: a stub may answer that, a server does not.
SERVED = {"chat/test_completions.py": "create", "test_models.py": "retrieve or list"}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The unpacked source of the version that is installed here."""
    name = f"openai-{openai.__version__}"
    with tarfile.open(FETCHED / f"{name}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    return tmp_path / name


@pytest.mark.parametrize("file", SERVED)
def test_openais_own_tests_pass(
    database_url: str, embedder: StubEmbedder, clock: Clock, suite: Path, file: str
) -> None:
    endpoint = Endpoint()
    endpoint.models = NAMED.findall((suite / TESTS / file).read_text("utf-8"))
    with (
        on_a_port(endpoint) as url,
        live_server(database_url, only(embedder), clock, chats=chats_of(url)) as live,
    ):
        with psycopg.connect(database_url) as db:
            # The key they present, in the place of the server's own.
            digest = hashlib.sha256(b"My API Key").digest()
            before = os.urandom(len(digest))
            db.execute("UPDATE api_key SET digest = %s WHERE digest = %s", [before, digest])
            own = hashlib.sha256(live.key.encode()).digest()
            db.execute("UPDATE api_key SET digest = %s WHERE digest = %s", [digest, own])
        ran = subprocess.run(
            [
                *(str(PYTHON), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
                *(f"{TESTS}/{file}", "-k", SERVED[file]),
            ],
            cwd=suite,
            env={**os.environ, "TEST_API_BASE_URL": live.url + "/v1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    print(ran.stdout[-200:])
    assert ran.returncode == 0, ran.stdout + ran.stderr
