from pathlib import Path

import pytest
from stub_endpoint import Reply, StubEndpoint

from recollect.core.errors import Invalid, Unavailable
from recollect.models.weights import MODEL, Weights, WeightsMissing, find_weights


@pytest.fixture
def _no_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.models.weights._WHEEL", "no-such-distribution")


def test_an_installed_wheel_works_offline(weights: Weights) -> None:
    assert weights.model.is_file()
    assert weights.tokenizer.is_file()
    assert "project_brain" in weights.model.parts


def test_the_configured_directory_comes_first(weights: Weights, tmp_path: Path) -> None:
    named = Weights(tmp_path / "model_quantized.onnx", tmp_path / "tokenizer.json")
    named.model.symlink_to(weights.model)
    named.tokenizer.symlink_to(weights.tokenizer)

    assert find_weights(tmp_path, tmp_path / "cache") == named


def test_a_different_file_in_that_directory_is_rejected(weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "model_quantized.onnx").symlink_to(weights.model)
    (tmp_path / "tokenizer.json").write_bytes(b"{}")

    with pytest.raises(Invalid) as caught:
        find_weights(tmp_path, tmp_path / "cache")

    assert caught.value.field == "weights_dir"
    assert "`tokenizer.json`" in caught.value.message


@pytest.mark.usefixtures("_no_carrier")
def test_the_cache_is_downloaded_once(
    stub: StubEndpoint, carrier_files: dict[str, bytes], tmp_path: Path
) -> None:
    stub.replies = [lambda asked: Reply(body=carrier_files[asked.path])] * 2

    first = find_weights(None, tmp_path, hub=stub.url + "/")
    again = find_weights(None, tmp_path, hub=stub.url + "/")

    own = tmp_path / MODEL
    assert first == again == Weights(own / "model_quantized.onnx", own / "tokenizer.json")
    assert [asked.path for asked in stub.requests] == list(carrier_files)
    assert sorted(own.iterdir()) == [first.model, first.tokenizer]


@pytest.mark.usefixtures("_no_carrier")
def test_a_damaged_cache_is_downloaded_again(
    stub: StubEndpoint, carrier_files: dict[str, bytes], tmp_path: Path
) -> None:
    own = tmp_path / MODEL
    own.mkdir()
    for path, content in carrier_files.items():
        (own / path.rsplit("/", 1)[-1]).write_bytes(content[:-1])
    stub.replies = [lambda asked: Reply(body=carrier_files[asked.path])] * 2

    found = find_weights(None, tmp_path, hub=stub.url + "/")

    assert found.tokenizer.read_bytes() == carrier_files["/v1/tokenizer.json"]


@pytest.mark.usefixtures("_no_carrier")
@pytest.mark.parametrize(
    "reply", [Reply(404), Reply(body=b"another model"), Reply(body=b"x" * 40_000_000)]
)
def test_a_file_with_another_digest_is_not_cached(
    stub: StubEndpoint, reply: Reply, tmp_path: Path
) -> None:
    stub.replies = [reply]

    with pytest.raises(WeightsMissing):
        find_weights(None, tmp_path, hub=stub.url + "/")

    assert list((tmp_path / MODEL).iterdir()) == []


@pytest.mark.usefixtures("_no_carrier")
def test_the_offline_error_says_what_to_do(refused_url: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_weights(None, tmp_path, hub=refused_url + "/")

    assert caught.value.service == "embedder"
    for way_out in ("`uv sync --group weights`", "`weights_dir`", "`embedding_url`"):
        assert way_out in str(caught.value)


@pytest.mark.usefixtures("_no_carrier")
def test_an_unwritable_cache_is_reported_as_missing_weights(
    stub: StubEndpoint, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()

    with pytest.raises(WeightsMissing):
        find_weights(None, blocked, hub=stub.url + "/")

    assert not stub.requests
