"""The only SQL: each query stands right above the function that runs it."""
