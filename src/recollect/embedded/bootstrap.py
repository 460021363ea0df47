"""What a new cluster needs before the first migration: the role, the database, the extensions."""

import re

import psycopg

from recollect.embedded.errors import CannotStart

# Older ones silently accept `SET hnsw.iterative_scan` and do nothing about it.
_OLDEST_VECTOR = (0, 8)


def bootstrap(server: psycopg.Connection, admin_url: str) -> None:
    """See to role, database and extensions; `server` is a superuser's connection, autocommitting.

    Quick and without effect when all is there.
    """
    _make_database(server)
    with psycopg.connect(admin_url, autocommit=True) as database:
        found = _versions(database)
        if not {"vector", "pg_trgm"} <= set(found):
            found = _make_extensions(database)
        if _parsed(found["vector"]) < _OLDEST_VECTOR:
            found = _update_vector(database)
        if _parsed(found["vector"]) < _OLDEST_VECTOR:
            raise CannotStart(
                f"This PostgreSQL has pgvector `{found['vector']}`; Recollect needs 0.8 or newer. "
                "Name the `bin` directory of one that has it in `RECOLLECT_POSTGRES_BIN`."
            )


def _make_database(server: psycopg.Connection) -> None:
    has_role, has_database = server.execute(
        """
        SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'recollect'),
               EXISTS (SELECT FROM pg_database WHERE datname = 'recollect')
        """
    ).fetchone() or (False, False)
    if not has_role:
        server.execute("CREATE ROLE recollect LOGIN NOSUPERUSER NOBYPASSRLS")
    if not has_database:
        server.execute("CREATE DATABASE recollect OWNER recollect")


def _make_extensions(database: psycopg.Connection) -> dict[str, str]:
    try:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        database.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except psycopg.errors.FeatureNotSupported as error:
        raise CannotStart(
            "This PostgreSQL lacks the extension `vector` or `pg_trgm`. Name the `bin` directory "
            "of one that has both in `RECOLLECT_POSTGRES_BIN`."
        ) from error
    return _versions(database)


def _update_vector(database: psycopg.Connection) -> dict[str, str]:
    database.execute("ALTER EXTENSION vector UPDATE")
    return _versions(database)


def _versions(database: psycopg.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT extname, extversion FROM pg_extension").fetchall())


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))
