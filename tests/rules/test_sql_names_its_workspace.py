"""SQL stands in `store/`, and every statement on a data table names its workspace.

Isolation is in the text of the query, so a test can read it there. A statement that serves all
workspaces at once is marked by a comment directly above it: `# everywhere:` and the reason. It
runs under `Pool.everywhere`, where row-level security lets it.
"""

import ast
import importlib
import re
from collections import Counter

import pytest
from psycopg import sql

from tests.rules.source import ROOT, files, texts, tree

STORE = [file for file in files() if file.startswith("store/")]

# Who may speak SQL outside of `store/`, and why.
OUTSIDE = {
    "embedded/bootstrap.py": "a superuser makes the role, the database and the extensions: "
    "there is no schema yet that a store could know",
    "dumps.py": "plays back the script that pg_dump wrote, whatever that says",
}

STATEMENT = re.compile(
    r"\s*(?:(?:SELECT|WITH|INSERT\s+INTO|DELETE\s+FROM|TRUNCATE|COPY|VACUUM|ANALYZE|LISTEN)\s"
    r"|UPDATE\s+\w+\s+(?:\w+\s+)?SET\s|UPDATE\s+\{|BEGIN;|SET\s+(?:LOCAL|SESSION)\s|LOCK\s+TABLE\s"
    r"|(?:CREATE|ALTER|DROP)\s+(?:\w+\s+)?(?:TABLE|INDEX|ROLE|DATABASE|EXTENSION|SCHEMA)\s)"
)


QUERY = re.compile(
    r"\s*(?:SELECT\s.*\sFROM\s|WITH\s+\w+\s+AS\s|INSERT\s+INTO\s|DELETE\s+FROM\s|UPDATE\s+\w+\s+SET\s)",
    re.DOTALL,
)
LASTING = re.compile(r"(?:^|;)\s*SET\s+(?!LOCAL\b)[\w.]+\s*(?:=|TO)\s")


def data_tables() -> set[str]:
    """Tables whose rows belong to a workspace, as the migrations make them."""
    found: set[str] = set()
    for file in sorted((ROOT / "store" / "migrations").glob("*.sql")):
        text = re.sub(r"--[^\n]*", "", file.read_text("utf-8"))
        for name, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.DOTALL):
            if re.search(r"^\s*workspace_id ", columns, re.MULTILINE):
                found.add(name)
    return found - {"api_key"}  # found by its digest; it is what says which workspace


TABLES = data_tables()
# A table whose name is filled in later may be any of them.
TOUCHED = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING|TABLE)\s+(?:({'|'.join(TABLES)})\b|\{{)")


# The same, with the name that the statement gives it; rows inserted are another matter.
ALIASED = re.compile(
    rf"(?:\b(?:FROM|JOIN|USING)|(?<!DO )(?<!FOR )\bUPDATE)\s+({'|'.join(TABLES)})\b(?:\s+(?:AS\s+)?(\w+))?"
)
KEYWORDS = {
    "CROSS",
    "FOR",
    "GROUP",
    "JOIN",
    "LEFT",
    "LIMIT",
    "ON",
    "ORDER",
    "SET",
    "USING",
    "WHERE",
}
# As a value, or as a literal where a plan depends on it.
PARAMETER = r"%\(workspace_id\)s|\{workspace_id\}"
EQUATION = re.compile(
    rf"\b(?:(\w+)\.)?workspace_id\s*=\s*(?:(?:(\w+)\.)?workspace_id\b|({PARAMETER}))"
)
INSERTED = re.compile(rf"\bINSERT\s+INTO\s+(?:{'|'.join(TABLES)})\b[^(]*\(([^)]*)\)")


def statements() -> list[tuple[str, str, str, bool]]:
    """Every module-level SQL statement of the store: file, name, text, whether it is marked."""
    found: list[tuple[str, str, str, bool]] = []
    for file in STORE:
        of_file: list[tuple[str, str, str, bool]] = []
        module = importlib.import_module(
            "recollect." + file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )
        lines = (ROOT / file).read_text("utf-8").splitlines()
        for node in tree(file).body:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            value = getattr(module, node.targets[0].id)
            text = value.as_string() if isinstance(value, sql.Composable) else value
            if isinstance(text, str) and STATEMENT.match(text):
                marked = is_marked(lines, node.lineno)
                of_file.append((file, node.targets[0].id, text, marked))
        # What only begins a longer statement is read there.
        found += [each for each in of_file if not is_part(each[2], [every[2] for every in of_file])]
    return found


def is_part(text: str, others: list[str]) -> bool:
    return any(text.strip() in other and text.strip() != other.strip() for other in others)


def is_marked(lines: list[str], line: int, mark: str = "# everywhere: ") -> bool:
    """Whether the comment directly above this line has the mark and a reason."""
    above = line - 2
    while above >= 0 and lines[above].startswith("#"):
        if lines[above].startswith(mark) and len(lines[above]) > len(mark) + 10:
            return True
        above -= 1
    return False


def names_its_workspace(text: str) -> bool:
    """Whether every data table in a statement is bound to the one workspace that it names.

    Each mention of a table needs an equation of its own, `m.workspace_id = ...`, that leads, over
    other tables if need be, to the parameter. A row that is inserted brings the parameter along.
    """
    if not re.search(PARAMETER, text):
        return False
    mentions = Counter(mentioned(text))
    equations = equated(text)
    bound = Counter(side for equation in equations for side in set(equation))
    return (
        all("workspace_id" in columns for columns in INSERTED.findall(text))
        and all(bound[name] >= count for name, count in mentions.items())
        and set(mentions) <= reached(equations)
    )


def mentioned(text: str) -> list[str]:
    """What a statement calls the data tables that it reads or changes; "" where it gives no name."""
    names = [alias for _, alias in ALIASED.findall(text)]
    return ["" if name.upper() in KEYWORDS else name for name in names]


def equated(text: str) -> list[tuple[str, str]]:
    """The names whose workspaces a statement equates, with each other or with the parameter."""

    def plain(name: str) -> str:
        return "" if name in TABLES else name

    return [
        (plain(left), "parameter" if given else plain(right))
        for left, right, given in EQUATION.findall(text)
    ]


def reached(equations: list[tuple[str, str]]) -> set[str]:
    """The names that lead to the parameter."""
    found, before = {"parameter"}, set[str]()
    while found != before:
        before = set(found)
        found |= {name for each in equations if found & set(each) for name in each}
    return found


def test_S40_the_rule_sees_the_tables_and_statements_there_are() -> None:
    assert {"memory", "thread", "turn", "event", "job", "memory_vector", "idempotency"} <= TABLES
    assert "api_key" not in TABLES
    assert len(statements()) > 60


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ("SELECT 1 FROM memory WHERE workspace_id = %(workspace_id)s AND id = %(id)s", True),
        ("SELECT 1 FROM memory WHERE id = %(id)s", False),
        (
            "SELECT 1 FROM memory m JOIN thread t USING (id) WHERE m.workspace_id = %(workspace_id)s",
            False,
        ),
        (
            "DELETE FROM turn t USING thread s WHERE t.workspace_id = s.workspace_id AND s.workspace_id = %(workspace_id)s",
            True,
        ),
        (
            "SELECT (SELECT 1 FROM turn t WHERE t.workspace_id = %(workspace_id)s) FROM memory m",
            False,
        ),
        ("SELECT 1 FROM memory m JOIN thread t ON t.workspace_id = m.workspace_id", False),
        ("INSERT INTO job (id) VALUES (%(id)s) RETURNING %(workspace_id)s", False),
        ("DELETE FROM turn WHERE workspace_id = %(other)s", False),
        ("INSERT INTO job (workspace_id, id) VALUES (%(workspace_id)s, %(id)s)", True),
        ("UPDATE memory SET pinned = true", False),
        ("SELECT count(*) FROM {}", False),
    ],
)
def test_S40_the_rule_can_tell_good_from_bad(text: str, *, is_good: bool) -> None:
    assert bool(STATEMENT.match(text))
    assert bool(TOUCHED.search(text))
    assert names_its_workspace(text) == is_good


def test_S40_every_statement_on_a_data_table_names_its_workspace() -> None:
    nameless = [
        f"{file}: {name}"
        for file, name, text, marked in statements()
        if TOUCHED.search(text) and not names_its_workspace(text) and not marked
    ]

    assert nameless == []


def test_S40_what_is_marked_as_serving_everybody_does() -> None:
    idle = [
        f"{file}: {name}"
        for file, name, text, marked in statements()
        if marked and (names_its_workspace(text) or not TOUCHED.search(text))
    ]

    assert idle == []


def test_S40_no_statement_hides_inside_a_function() -> None:
    hidden = [
        f"{file}:{line}"
        for file in STORE
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for text, line in texts(node)
        if STATEMENT.match(text) and TOUCHED.search(text)
    ]

    assert hidden == []


def test_sql_stands_in_the_store_alone() -> None:
    """Whoever looks for what happens to the data has one place to look."""
    others = [file for file in files() if file not in STORE and file not in OUTSIDE]
    spoken = {
        f"{file}:{line}" for file in others for text, line in texts(tree(file)) if QUERY.match(text)
    }
    executed = {
        f"{file}:{node.lineno}"
        for file in others
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"execute", "executemany"}
    }

    assert spoken | executed == set()
    assert set(OUTSIDE) <= set(files())


def test_S45_settings_of_a_connection_end_with_the_transaction() -> None:
    """The pool hands a connection on with whatever was set before.

    A connection that never comes from the pool may keep what it was told: `# own connection:`.
    """
    found = [
        f"{file}:{line}"
        for file in files()
        for text, line in texts(tree(file))
        if (LASTING.search(text) or re.search(r"set_config\([^)]*,\s*false\s*\)", text))
        and not is_marked((ROOT / file).read_text("utf-8").splitlines(), line, "# own connection: ")
    ]

    assert found == []
