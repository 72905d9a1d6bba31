"""Write offsets: routes, guards, previews, steps."""
