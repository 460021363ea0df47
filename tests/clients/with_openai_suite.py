"""Run the tests of OpenAI's Python client against Recollect: `make clients`.

`make clients` downloads them with the client's source distribution; none are stored here. They
check every response strictly and send the key `My API Key`.
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
from tests.support.instance import single_embedder
from tests.support.live_server import live_server, serve_app
from tests.support.upstream import Endpoint, chat_models_at

DOWNLOADS = Path(__file__).parents[2] / ".clients"
TESTS = "tests/api_resources"
MODEL_NAME = re.compile(r'(?:model=|retrieve\(\s*)"([^"]+)"')
PYTHON = DOWNLOADS / "venv" / "bin" / "python"
# The tests of each file that apply to Recollect. It has no stored completions and no fine-tuned
# models to delete. The tests that create a response send no input, and most embedding tests
# request base64 but expect numbers, or request one dimension: only a stub can satisfy them.
SELECTED = {
    "chat/test_completions.py": "create",
    "test_models.py": "retrieve or list",
    "test_embeddings.py": "test_method_create and loose and not all_params",
    "test_responses.py": "retrieve and overload_1",
}
# The id of the response that the tests retrieve.
KNOWN_ID = "resp_677efb5139a88190b512bc3fef8e535d"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The unpacked source of the installed version."""
    name = f"openai-{openai.__version__}"
    with tarfile.open(DOWNLOADS / f"{name}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    return tmp_path / name


def create_known_response(url: str, database_url: str) -> None:
    """Create a response with the id that the tests retrieve."""
    with (
        openai.OpenAI(api_key="My API Key", base_url=url + "/v1", max_retries=0) as client,
        psycopg.connect(database_url, autocommit=True) as db,
    ):
        db.execute("SET recollect.reach = 'everywhere'")
        made = client.responses.create(model="m1", input="Hello")
        db.execute("DELETE FROM response WHERE id = %s", [KNOWN_ID])
        db.execute(
            "UPDATE response SET id = %s, answer = answer || jsonb_build_object('id', %s::text)"
            " WHERE id = %s",
            [KNOWN_ID, KNOWN_ID, made.id],
        )


@pytest.mark.parametrize("file", SELECTED)
def test_openais_own_tests_pass(
    database_url: str, embedder: StubEmbedder, clock: Clock, suite: Path, file: str
) -> None:
    endpoint = Endpoint()
    endpoint.models = MODEL_NAME.findall((suite / TESTS / file).read_text("utf-8"))
    with (
        serve_app(endpoint) as url,
        live_server(
            database_url, single_embedder(embedder), clock, chats=chat_models_at(url)
        ) as live,
    ):
        with psycopg.connect(database_url) as db:
            # Replace the server's key with the key that the tests send.
            digest = hashlib.sha256(b"My API Key").digest()
            before = os.urandom(len(digest))
            db.execute("UPDATE api_key SET digest = %s WHERE digest = %s", [before, digest])
            own = hashlib.sha256(live.key.encode()).digest()
            db.execute("UPDATE api_key SET digest = %s WHERE digest = %s", [digest, own])
        create_known_response(live.url, database_url)
        ran = subprocess.run(
            [
                *(str(PYTHON), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
                *(f"{TESTS}/{file}", "-k", SELECTED[file]),
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
