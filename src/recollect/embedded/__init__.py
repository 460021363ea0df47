"""Life of the embedded PostgreSQL: made on first use, shared by processes, stopped by the last one.

`attach` is the whole of it. From async code call it and `detach` through `asyncio.to_thread`.
"""

from recollect.embedded.attached import Attached, attach
from recollect.embedded.binaries import find_binaries
from recollect.embedded.errors import CannotStart
from recollect.embedded.home import default_data_dir

__all__ = ["Attached", "CannotStart", "attach", "default_data_dir", "find_binaries"]
