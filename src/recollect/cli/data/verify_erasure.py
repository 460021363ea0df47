"""`recollect verify-erasure`: check that the data named by an erasure receipt is gone."""

import argparse
from uuid import UUID

from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import open_command_engine, read_file
from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.portability.erasure_receipts import get_receipt, read_receipt, verify


def add(commands: Commands) -> None:
    """Add the arguments of `verify-erasure`."""
    parser = add_command(
        commands,
        "verify-erasure",
        about="Check a receipt of `recollect erase`: that this instance issued it, that neither "
        "it nor an earlier receipt was changed, and that no table contains an id whose hash it "
        "lists. Exits with 1 if a check fails.",
        example="recollect verify-erasure receipt.json",
    )
    parser.add_argument("receipt", help="the receipt's file, - for standard input, or its id")
    parser.set_defaults(run=_run)


async def _run(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        receipt = await _read(engine, args.receipt)
        found = await verify(engine, receipt)
    for problem in found.problems:
        print(problem)
    for column, count in found.left.items():
        print(f"Still there: {count} in {column}. Erase them with `recollect erase again`.")
    if found.is_good:
        print(f"Erased on {receipt['erased_at']}. No data of it was found.")
    return 0 if found.is_good else 1


async def _read(engine: Engine, wanted: str) -> dict[str, object]:
    try:
        receipt_id = UUID(wanted)
    except ValueError:
        return read_receipt(read_file(wanted))
    return await get_receipt(engine, None, receipt_id)
