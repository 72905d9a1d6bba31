"""PostgreSQL as a pipeline target, as a ledger, and for row counts."""
