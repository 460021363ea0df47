"""How many postings a search reads, and which terms are too common to read. Pure."""

from collections.abc import Mapping, Sequence

from recollect.keywords.bm25 import Word

# How many postings of common words a search reads: with more, a common word in a large workspace
# costs more than it contributes. The rarest words are read first, and always at least one. The
# others only add to the scores of memories that those have found.
READABLE = 3_000
# The maximum per term: if 100,000 memories have a term, its score is about the same in all of them.
# Ids are random, so these are a random sample. 400,000 took 330 ms to read and score, these take
# 50.
MAX_POSTINGS = 100_000
# The maximum for all terms: a pasted text of 170 everyday words, in a workspace of 10,000 (too
# small to count common words), took 1.8 s and 180 MiB.
MAX_POSTINGS_TOTAL = 400_000


def too_common(query: Sequence[Word], common: Mapping[str, int]) -> frozenset[str]:
    """Return the terms too common to read: a word's forms together, each part separately."""
    asked = [each for word in query for each in (word.forms, *((part,) for part in word.parts))]
    costs = sorted((sum(common.get(term, 0) for term in each), each) for each in asked)
    spent = 0
    read: set[str] = set()
    for cost, each in costs:
        spent += cost
        if not read or spent <= READABLE:
            read.update(each)
    # A form shared with a readable word is read.
    return frozenset(term for each in asked for term in each) - read
