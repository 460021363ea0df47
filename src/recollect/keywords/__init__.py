"""The keyword index: tokenizer, postings and BM25."""
