"""SQL is only in `db/` and in `queries` modules, and every statement on a data table names its workspace.

Isolation is in the text of the query, so a test can check it. A statement for all workspaces has a
comment directly above it: `# everywhere:` and the reason. It runs in `Pool.everywhere`, where
row-level security allows it.
"""

import ast
import importlib
import re
from collections import Counter

import pytest
from psycopg import sql

from tests.rules.source import ROOT, files, texts, tree

# BM25 is arithmetic on postings and contains the names of the columns it reads.
SQL_FILES = [
    file
    for file in files()
    if file.startswith("db/")
    or "/queries/" in file
    or file.endswith("/queries.py")
    or file == "keywords/bm25.py"
]

# The only other files with SQL, and why.
OTHER_SQL_FILES = {
    "embedded/bootstrap.py": "a superuser creates the role, the database and the extensions, before "
    "there is a schema",
    "portability/dump.py": "runs the script that pg_dump wrote",
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
SESSION_SETTING = re.compile(r"(?:^|;)\s*SET\s+(?!LOCAL\b)[\w.]+\s*(?:=|TO)\s")


def data_tables() -> set[str]:
    """The tables whose rows belong to a workspace, according to the migrations."""
    found: set[str] = set()
    for file in sorted((ROOT / "db" / "migrations").glob("*.sql")):
        text = re.sub(r"--[^\n]*", "", file.read_text("utf-8"))
        for name, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.DOTALL):
            if re.search(r"^\s*workspace_id ", columns, re.MULTILINE):
                found.add(name)
        for old, new in re.findall(r"ALTER TABLE (\w+) RENAME TO (\w+)", text):
            found = found - {old} | {new}
    return found - {"api_key"}  # looked up by its digest, to find out the workspace


TABLES = data_tables()
# A table whose name is inserted later may be any of them.
USES_DATA_TABLE = re.compile(
    rf"\b(?:FROM|JOIN|INTO|UPDATE|USING|TABLE)\s+(?:({'|'.join(TABLES)})\b|\{{)"
)


# The same with the alias of the table, without INSERT.
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
# A parameter, or a literal if the plan depends on it.
PARAMETER = r"%\(workspace_id\)s|\{workspace_id\}"
EQUATION = re.compile(
    rf"\b(?:(\w+)\.)?workspace_id\s*=\s*(?:(?:(\w+)\.)?workspace_id\b|({PARAMETER}))"
)
INSERTED = re.compile(rf"\bINSERT\s+INTO\s+(?:{'|'.join(TABLES)})\b[^(]*\(([^)]*)\)")


def statements() -> list[tuple[str, str, str, bool]]:
    """Every module-level SQL statement: file, name, text, and whether it is marked."""
    found: list[tuple[str, str, str, bool]] = []
    for file in SQL_FILES:
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
        # The start of a longer statement is checked as part of that statement.
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
    """Whether every data table in a statement is bound to the workspace parameter.

    Each mention of a table needs its own equation, `m.workspace_id = ...`, that leads to the
    parameter, directly or through other tables. An INSERT must set the column.
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
    """The aliases of the data tables that a statement reads or changes; "" without an alias."""
    names = [alias for _, alias in ALIASED.findall(text)]
    return ["" if name.upper() in KEYWORDS else name for name in names]


def equated(text: str) -> list[tuple[str, str]]:
    """The aliases whose `workspace_id` is equated, with each other or with the parameter."""

    def plain(name: str) -> str:
        return "" if name in TABLES else name

    return [
        (plain(left), "parameter" if given else plain(right))
        for left, right, given in EQUATION.findall(text)
    ]


def reached(equations: list[tuple[str, str]]) -> set[str]:
    """The aliases that lead to the parameter."""
    found, before = {"parameter"}, set[str]()
    while found != before:
        before = set(found)
        found |= {name for each in equations if found & set(each) for name in each}
    return found


def test_S40_the_rule_finds_the_tables_and_statements() -> None:
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
def test_S40_the_rule_tells_good_statements_from_bad(text: str, *, is_good: bool) -> None:
    assert bool(STATEMENT.match(text))
    assert bool(USES_DATA_TABLE.search(text))
    assert names_its_workspace(text) == is_good


def test_S40_every_statement_on_a_data_table_names_its_workspace() -> None:
    nameless = [
        f"{file}: {name}"
        for file, name, text, marked in statements()
        if USES_DATA_TABLE.search(text) and not names_its_workspace(text) and not marked
    ]

    assert nameless == []


def test_S40_statements_marked_everywhere_need_the_mark() -> None:
    idle = [
        f"{file}: {name}"
        for file, name, text, marked in statements()
        if marked and (names_its_workspace(text) or not USES_DATA_TABLE.search(text))
    ]

    assert idle == []


def test_S40_no_statement_is_inside_a_function() -> None:
    hidden = [
        f"{file}:{line}"
        for file in SQL_FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for text, line in texts(node)
        if STATEMENT.match(text) and USES_DATA_TABLE.search(text)
    ]

    assert hidden == []


def test_sql_is_only_in_db_and_queries() -> None:
    """So everything that happens to the data is found in one layer."""
    others = [file for file in files() if file not in SQL_FILES and file not in OTHER_SQL_FILES]
    written = {
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

    assert written | executed == set()
    assert set(OTHER_SQL_FILES) <= set(files())


def test_S45_connection_settings_end_with_the_transaction() -> None:
    """A pooled connection keeps its session settings for the next user.

    A connection outside the pool may have session settings: mark it `# own connection:`.
    """
    found = [
        f"{file}:{line}"
        for file in files()
        for text, line in texts(tree(file))
        if (SESSION_SETTING.search(text) or re.search(r"set_config\([^)]*,\s*false\s*\)", text))
        and not is_marked((ROOT / file).read_text("utf-8").splitlines(), line, "# own connection: ")
    ]

    assert found == []
