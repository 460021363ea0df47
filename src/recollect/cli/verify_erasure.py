"""`recollect verify-erasure`: check that what a receipt says is gone is gone."""

import argparse
from uuid import UUID

from recollect.cli.arguments import Commands, add_command
from recollect.cli.houses import opened, read_file
from recollect.engine.core import Engine
from recollect.engine.erase_receipts import get_receipt, read_receipt, verify
from recollect.settings import Settings


def add(commands: Commands) -> None:
    """Add the arguments of `verify-erasure`."""
    parser = add_command(
        commands,
        "verify-erasure",
        about="Check a receipt of `recollect erase`: that it was given here and not changed, that "
        "no receipt before it was, and that none of the ids it has the hashes of stands in any "
        "table. Ends with 1 if something is wrong.",
        example="recollect verify-erasure receipt.json",
    )
    parser.add_argument("receipt", help="its file, - for standard input, or its id")
    parser.set_defaults(run=_run)


async def _run(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        receipt = await _read(engine, asked.receipt)
        found = await verify(engine, receipt)
    for problem in found.problems:
        print(problem)
    for column, count in found.left.items():
        print(f"Still there: {count} in {column}. Erase it with `recollect erase again`.")
    if found.is_good:
        print(f"Erased on {receipt['erased_at']}; nothing of it is here.")
    return 0 if found.is_good else 1


async def _read(engine: Engine, wanted: str) -> dict[str, object]:
    try:
        receipt_id = UUID(wanted)
    except ValueError:
        return read_receipt(read_file(wanted))
    return await get_receipt(engine, None, receipt_id)
