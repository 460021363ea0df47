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
# requests to make a response say nothing at all, and most of those for embeddings ask for base64 and
# expect numbers, or for one dimension: a stub may answer that, a server does not.
SERVED = {
    "chat/test_completions.py": "create",
    "test_models.py": "retrieve or list",
    "test_embeddings.py": "test_method_create and loose and not all_params",
    "test_responses.py": "retrieve and overload_1",
}
# The response that they retrieve.
KNOWN = "resp_677efb5139a88190b512bc3fef8e535d"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The unpacked source of the version that is installed here."""
    name = f"openai-{openai.__version__}"
    with tarfile.open(FETCHED / f"{name}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    return tmp_path / name


def made_as_theirs(url: str, database_url: str) -> None:
    """A response under the id that they know."""
    with (
        openai.OpenAI(api_key="My API Key", base_url=url + "/v1", max_retries=0) as client,
        psycopg.connect(database_url, autocommit=True) as db,
    ):
        db.execute("SET recollect.reach = 'everywhere'")
        made = client.responses.create(model="m1", input="Hello")
        db.execute("DELETE FROM response WHERE id = %s", [KNOWN])
        db.execute(
            "UPDATE response SET id = %s, answer = answer || jsonb_build_object('id', %s::text)"
            " WHERE id = %s",
            [KNOWN, KNOWN, made.id],
        )


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
        made_as_theirs(live.url, database_url)
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
