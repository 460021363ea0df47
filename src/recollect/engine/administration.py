"""Who may arrange an org from outside the machine: its admins, by keys with that right."""

from dataclasses import dataclass
from uuid import UUID

from recollect.domain import Caller, OrgId, Right
from recollect.engine.core import Engine
from recollect.errors import Denied, Invalid
from recollect.store import identity


@dataclass(frozen=True, slots=True)
class Admin:
    """An administrator: of one org, or of the house, which is whoever is admin of its first org."""

    caller: Caller
    is_of_house: bool

    @property
    def org_id(self) -> OrgId:
        """The org that is arranged."""
        return self.caller.org_id

    @property
    def org(self) -> str:
        """Its id, as the verbs of `tenants` take it."""
        return str(self.caller.org_id)

    @property
    def reach(self) -> OrgId | None:
        """The org beyond which nothing is seen; None for the house's admins."""
        return None if self.is_of_house else self.org_id

    @property
    def workspace(self) -> str:
        """Where projects and agents are, unless another workspace is named."""
        return str(self.caller.workspace_id)

    def require_house(self) -> None:
        """Raise `Denied` unless orgs themselves may be made and unmade."""
        if not self.is_of_house:
            raise Denied("Only an admin of this house's first org makes and removes orgs.")

    def check_not_self(self, wanted: str) -> None:
        """Raise `Invalid` for whoever would shut themselves out."""
        if wanted in {str(self.caller.user_id), str(self.org_id)}:
            raise Invalid("You would shut yourself out. Let another admin do it.")


async def administer(engine: Engine, caller: Caller) -> Admin:
    """The caller as an administrator; raise `Denied` unless both the key and its user may."""
    caller.require(Right.ADMIN)
    async with engine.pool.everywhere() as db:
        orgs = await identity.orgs(db)
        users = await identity.users(db, caller.org_id)
    if not any(each.is_admin for each in users if each.id == caller.user_id):
        raise Denied("The user of this key is no admin.")
    return Admin(caller, is_of_house=orgs[0].id == caller.org_id)


async def note(engine: Engine, admin: Admin, action: str, **ids: UUID) -> None:
    """Write down in the audit what an admin did."""
    async with engine.writing(admin.caller) as db:
        details = {name: str(value) for name, value in ids.items()}
        await engine.note(db, admin.caller, action, details)
