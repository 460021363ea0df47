"""The embedded PostgreSQL: created on first use, shared by processes, stopped after the last one.

`attach` is the main entry. Async code calls it and `detach` through `asyncio.to_thread`.
"""

from recollect.embedded.attached import Attached, attach
from recollect.embedded.binaries import find_binaries
from recollect.embedded.errors import CannotStart
from recollect.embedded.home import default_data_dir

__all__ = ["Attached", "CannotStart", "attach", "default_data_dir", "find_binaries"]
