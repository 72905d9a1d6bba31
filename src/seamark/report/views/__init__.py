"""One module a noun: its listing, its detail, its document."""
