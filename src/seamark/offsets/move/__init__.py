"""Move offsets to a target."""
