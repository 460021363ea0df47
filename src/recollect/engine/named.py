"""Who or what is meant, by id or by name, when the house is arranged.

`within` is the org that an administrator may not look beyond; None is for whoever runs the house.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from recollect.domain import OrgId
from recollect.errors import Conflict, Invalid, NotFound
from recollect.store import identity
from recollect.store.identity import Org, User, Workspace
from recollect.store.pool import Db


class _Named(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


async def org_named(db: Db, wanted: str | None, within: OrgId | None) -> Org:
    """The org; with None the only one there is."""
    found = [each for each in await identity.orgs(db) if within in {None, each.id}]
    if wanted is None:
        if len(found) == 1:
            return found[0]
        raise Invalid("There is more than one org. Name it with `--org`.", field="org")
    return pick(found, wanted, "org")


async def user_named(db: Db, wanted: str, within: OrgId | None) -> User:
    """A user by login or id, archived ones too."""
    orgs = [within] if within else [each.id for each in await identity.orgs(db)]
    for each in orgs:
        for user in await identity.users(db, each):
            if wanted in {user.login, str(user.id)}:
                return user
    raise NotFound("user")


async def workspace_named(db: Db, wanted: str | None, within: OrgId | None = None) -> Workspace:
    """The workspace; with None the default one."""
    found = await identity.find_workspace(db, wanted, within)
    if not found:
        raise NotFound("workspace")
    if len(found) > 1:
        raise Conflict("More than one workspace fits. Name it by its id.")
    return found[0]


def pick(known: Sequence[N], wanted: str, thing: str) -> N:
    """The one of these that is meant."""
    found = [each for each in known if wanted in {each.name, str(each.id)}]
    if not found:
        raise NotFound(thing)
    if len(found) > 1:
        raise Conflict(f"More than one {thing} has that name. Use its id.")
    return found[0]
