"""Files that the last version before the squashed migrations wrote still load."""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_support import FASTER, processes, recollect

from tests.db.test_migrations import OLD_VERSION
from tests.support.serve_process import ServeProcess
from tests.support.waiting import wait_until


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory that the embedded PostgreSQL can reach."""
    base = Path(tempfile.mkdtemp(prefix="old-version-", dir="/tmp"))
    base.chmod(0o711)
    yield base
    wait_until(lambda: not processes(base))
    shutil.rmtree(base)


def contents_of(folder: Path) -> set[str]:
    """Serve the data directory and list the contents of its memories."""
    key = recollect("key", "create", "--name", "test", "--data-dir", folder).out.strip()
    server = ServeProcess(folder, **FASTER)
    server.key = key
    server.start()
    try:
        with server.client() as client:
            found = client.get("/v1/memories", params={"limit": 100}).json()["data"]
    finally:
        server.stop()
    return {memory["content"] for memory in found}


def test_a_backup_of_the_old_version_restores(folder: Path) -> None:
    file = folder / "backup.tar"
    file.write_bytes(gzip.decompress((OLD_VERSION / "backup.tar.gz").read_bytes()))

    restored = recollect("restore", file, "--data-dir", folder / "data")

    assert restored.code == 0, restored.err
    assert "adopting 0001_schema" in restored.err
    assert "The Lisbon office opens on 12 September" in contents_of(folder / "data")


def test_an_export_of_the_old_version_imports(folder: Path) -> None:
    recollect("key", "create", "--name", "first", "--data-dir", folder / "data")

    imported = recollect("import", OLD_VERSION / "export.zip", "--data-dir", folder / "data")

    assert imported.code == 0, imported.err
    assert "The Lisbon office opens on 12 September" in contents_of(folder / "data")
