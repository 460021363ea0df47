"""`os.environ` is read in `settings.py`: one place says what an operator can set."""

import ast

from tests.rules.source import files, tree

# Who else may look, and why.
ELSEWHERE = {
    "embedded/cluster.py": "hands a few variables on to the PostgreSQL it starts",
    "embedded/home.py": "asks the system where a user's data belongs",
    "embedded/binaries.py": "looks for a PostgreSQL where other programs unpack theirs",
    "models/builtin.py": "tells the runtime of its model, which listens to nothing else, to report "
    "to nobody",
    "dumps.py": "hands its own environment, without our settings, on to pg_dump",
}


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        file
        for file in files()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute)
        and node.attr in {"environ", "environb", "getenv", "putenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }

    assert readers - {"settings.py"} == set(ELSEWHERE)
