"""The verbs: what Recollect does with memories. It knows no HTTP, no JSON on the wire, no SQL."""
