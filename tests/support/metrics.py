"""Reading what `/metrics` shows."""

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Every sample, by its name and its labels."""
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def sample(text: str, name: str, **labels: str) -> float:
    """One of them."""
    return samples(text)[name, frozenset(labels.items())]
