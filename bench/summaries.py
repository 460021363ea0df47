"""Measure the quality of summaries without a model, on DialogSum.

    .venv/bin/python -m bench.summaries --data DIR [--show 10]

DIR contains `dialogsum/dev.jsonl`. ROUGE with Google's `rouge-score`, with stemming: the mean
F-measure over dialogues. Baselines: the first three messages, and the three sentences closest to
the centroid of all words.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from rouge_score import rouge_scorer

from recollect.conversations.extractive_summary import SpokenLine, split_sentences, summary_of

MEASURES = ("rouge1", "rouge2", "rougeL")
_LINE = re.compile(r"(#?\w+#?):\s*(.*)")


@dataclass(frozen=True, slots=True)
class Example:
    """A dialogue and its human summary."""

    lines: list[SpokenLine]
    summary: str


def lead(lines: Sequence[SpokenLine]) -> str:
    return " ".join(f"{line.speaker}: {line.text}" for line in lines[:3])


def centroid(lines: Sequence[SpokenLine]) -> str:
    sentences = [(line.speaker, text) for line in lines for text in split_sentences(line.text)]
    bags = [Counter(re.findall(r"\w+", text.lower())) for _, text in sentences]
    middle = sum(bags, Counter[str]())

    def closeness(bag: Counter[str]) -> float:
        dot = sum(count * middle[word] for word, count in bag.items())
        return dot / sqrt(sum(count * count for count in bag.values()) or 1)

    best = sorted(range(len(bags)), key=lambda each: -closeness(bags[each]))[:3]
    return " ".join(f"{sentences[each][0]}: {sentences[each][1]}" for each in sorted(best))


def read(path: Path) -> list[Example]:
    found: list[Example] = []
    for row in path.read_text("utf-8").splitlines():
        record: dict[str, Any] = json.loads(row)
        lines = [
            SpokenLine(match[1], match[2])
            for line in record["dialogue"].splitlines()
            if (match := _LINE.match(line))
        ]
        found.append(Example(lines, record["summary"]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--data", type=Path, required=True, help="directory with dialogsum/dev.jsonl"
    )
    parser.add_argument("--show", type=int, default=0, help="print this many of our summaries")
    args = parser.parse_args()
    examples = read(args.data / "dialogsum" / "dev.jsonl")
    scorer: Any = rouge_scorer.RougeScorer(list(MEASURES), use_stemmer=True)
    methods: dict[str, Callable[[Sequence[SpokenLine]], str]] = {
        "first three messages": lead,
        "centroid, three sentences": centroid,
        "ours": summary_of,
    }
    print("| method | ROUGE-1 | ROUGE-2 | ROUGE-L | words |")
    print("|---|---|---|---|---|")
    for name, method in methods.items():
        texts = [method(each.lines) for each in examples]
        scores = [
            scorer.score(each.summary, text) for each, text in zip(examples, texts, strict=True)
        ]
        means = [sum(each[name].fmeasure for each in scores) / len(scores) for name in MEASURES]
        words = sum(len(text.split()) for text in texts) / len(texts)
        print(f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} | {words:.0f} |")
    for each in examples[: args.show]:
        print(f"\n{summary_of(each.lines)}\n  reference: {each.summary}")


if __name__ == "__main__":
    main()
