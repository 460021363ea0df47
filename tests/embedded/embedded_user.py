"""A process that says it is there, attaches when told, says how that went, stays until told."""

import json
import sys
import time
from pathlib import Path

from recollect.embedded import CannotStart, attach, default_data_dir


def main(where: str, kind: str) -> None:
    print("here", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    try:
        held = attach(Path(where) if where else default_data_dir(), exclusive=kind == "serve")
    except CannotStart as error:
        print(json.dumps({"refused": error.message}), flush=True)
        return
    told = {"url": held.url, "data_dir": str(held.data_dir), "span": [began, time.monotonic()]}
    print(json.dumps(told), flush=True)
    sys.stdin.readline()
    held.detach()


if __name__ == "__main__":
    main(*sys.argv[1:])
