"""Prepare a new cluster for the first migration: create role, database and extensions."""

import re

import psycopg

from recollect.embedded.errors import CannotStart

# Older versions accept `SET hnsw.iterative_scan` and ignore it.
_OLDEST_VECTOR = (0, 8)


def bootstrap(server: psycopg.Connection, admin_url: str) -> None:
    """Create the role, database and extensions that are missing. Fast if nothing is missing.

    `server` is an autocommit connection of a superuser.
    """
    _create_database(server)
    with psycopg.connect(admin_url, autocommit=True) as database:
        found = _versions(database)
        if not {"vector", "pg_trgm"} <= set(found):
            found = _create_extensions(database)
        if _parse(found["vector"]) < _OLDEST_VECTOR:
            found = _update_vector(database)
        if _parse(found["vector"]) < _OLDEST_VECTOR:
            raise CannotStart(
                f"This PostgreSQL has pgvector `{found['vector']}`; Recollect needs 0.8 or newer. "
                "Set `RECOLLECT_POSTGRES_BIN` to the `bin` directory of a PostgreSQL that has it."
            )


def _create_database(server: psycopg.Connection) -> None:
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


def _create_extensions(database: psycopg.Connection) -> dict[str, str]:
    try:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        database.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except psycopg.errors.FeatureNotSupported as error:
        raise CannotStart(
            "This PostgreSQL lacks the extension `vector` or `pg_trgm`. Set "
            "`RECOLLECT_POSTGRES_BIN` to the `bin` directory of a PostgreSQL that has both."
        ) from error
    return _versions(database)


def _update_vector(database: psycopg.Connection) -> dict[str, str]:
    database.execute("ALTER EXTENSION vector UPDATE")
    return _versions(database)


def _versions(database: psycopg.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT extname, extversion FROM pg_extension").fetchall())


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))
