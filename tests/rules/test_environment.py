"""`os.environ` is read only in `core/settings.py`, which lists everything an operator can set."""

import ast

from tests.rules.source import files, tree

# The other files that may read it, and why.
EXCEPTIONS = {
    "embedded/cluster.py": "passes a few variables on to the PostgreSQL it starts",
    "embedded/home.py": "finds the user's data directory",
    "embedded/binaries.py": "looks for PostgreSQL where other programs unpack it",
    "models/builtin_embedder.py": "disables the model runtime's telemetry, which has no other switch",
    "portability/dump.py": "passes its environment, without our settings, on to pg_dump",
}


def test_the_environment_is_read_only_in_settings() -> None:
    readers = {
        file
        for file in files()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute)
        and node.attr in {"environ", "environb", "getenv", "putenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }

    assert readers - {"core/settings.py"} == set(EXCEPTIONS)
