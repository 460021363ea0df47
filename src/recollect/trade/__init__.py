"""What leaves and comes in as files: exports of our own, and what other systems write."""
