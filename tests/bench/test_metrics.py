"""The benchmark's metrics, compared with values calculated by hand."""

import math

import pytest

from bench.metrics import (
    Interval,
    Quality,
    auroc,
    by_best_member,
    difference,
    interval,
    ndcg,
    newest_leads,
    positions_of,
    quality,
    recall,
    reciprocal_rank,
)

RANKING = list("abcdefghijklmnop")


def test_all_metrics_of_a_ranking_match_hand_calculated_values() -> None:
    found = quality(RANKING, {"b", "g", "l", "z"})  # positions 2, 7, 12, and not found

    gain = 1 / math.log2(3) + 1 / math.log2(8)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)
    assert found == Quality(
        recall_5=1 / 4,
        recall_10=2 / 4,
        hit_10=1.0,
        all_10=0.0,
        reciprocal_rank=1 / 2,
        ndcg_10=gain / ideal,
    )


def test_a_perfect_ranking_scores_one_everywhere() -> None:
    assert quality(RANKING, {"a", "b"}) == Quality(1, 1, 1, 1, 1, 1)


def test_a_ranking_without_evidence_scores_zero_everywhere() -> None:
    assert quality(RANKING, {"y", "z"}) == Quality(0, 0, 0, 0, 0, 0)


def test_an_empty_ranking_scores_zero_everywhere() -> None:
    assert quality([], {"a"}) == Quality(0, 0, 0, 0, 0, 0)


def test_a_repeated_id_counts_once_but_takes_two_positions() -> None:
    assert positions_of(["x", "a", "a", "b"], {"a", "b"}) == [2, 4]


def test_recall_includes_the_position_at_its_depth() -> None:
    assert recall([5, 6], 2, 5) == 1 / 2


def test_the_reciprocal_rank_has_no_depth_limit() -> None:
    assert reciprocal_rank([50, 20]) == 1 / 20


def test_more_evidence_than_the_depth_can_still_be_perfect() -> None:
    assert ndcg(range(1, 13), 12, 10) == pytest.approx(1)


def test_a_session_has_the_rank_of_its_best_turn() -> None:
    sessions = by_best_member(["2#1", "1#4", "2#0", "3#1"], lambda unit: unit.partition("#")[0])

    assert sessions == ["2", "1", "3"]


@pytest.mark.parametrize(
    ("ranking", "leads"),
    [
        (["new", "old", "older"], True),
        (["old", "new", "older"], False),
        (["x", "new"], True),
        (["x", "old"], False),
        (["x"], False),
    ],
)
def test_the_newest_evidence_leads_only_above_all_older_evidence(
    ranking: list[str], *, leads: bool
) -> None:
    assert newest_leads(ranking, {"new"}, {"old", "older"}) is leads


def test_auroc_counts_pairs_and_halves_ties() -> None:
    # Of six pairs: 0.9 is above both, 0.5 is above one and equal to one, 0.2 is below both.
    assert auroc([0.9, 0.5, 0.2], [0.5, 0.3]) == (2 + 1.5) / 6


def test_an_interval_contains_its_mean_and_is_deterministic() -> None:
    values = [0.0, 1.0] * 50

    found = interval(values)

    # The standard error is 0.05; the bounds are about two standard errors away.
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.40, abs=0.02)
    assert found.high == pytest.approx(0.60, abs=0.02)
    assert interval(values) == found


def test_constant_differences_give_an_interval_without_width() -> None:
    assert difference([0.5, 0.75, 1.0], [0.25, 0.5, 0.75]) == Interval(0.25, 0.25, 0.25)
