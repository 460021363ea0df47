"""Background work is tested in databases apart: a worker does whatever anybody has left to do."""

import pytest

from tests.support.database import TestDatabases


@pytest.fixture(scope="module")
def database_url(databases: TestDatabases) -> str:
    """A database of this module's own."""
    return databases.clone()
