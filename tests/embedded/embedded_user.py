"""A process that attaches on one line of input, prints the result, and detaches on the next."""

import json
import sys
import time
from pathlib import Path

from recollect.embedded import CannotStart, attach, default_data_dir


def main(where: str, kind: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    try:
        attached = attach(Path(where) if where else default_data_dir(), exclusive=kind == "serve")
    except CannotStart as error:
        print(json.dumps({"refused": error.message}), flush=True)
        return
    result = {
        "url": attached.url,
        "data_dir": str(attached.data_dir),
        "span": [began, time.monotonic()],
    }
    print(json.dumps(result), flush=True)
    sys.stdin.readline()
    attached.detach()


if __name__ == "__main__":
    main(*sys.argv[1:])
