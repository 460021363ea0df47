"""The ledger of model calls, and the budgets that limit them."""
