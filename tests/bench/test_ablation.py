"""`bench.ablation` removes steps by the names of functions and constants; those must exist."""

from bench.ablation import STEPS


def test_every_replaced_name_exists() -> None:
    missing = [
        name
        for replaced in STEPS.values()
        for target, name, _ in replaced
        if not hasattr(target, name)
    ]

    assert missing == []
