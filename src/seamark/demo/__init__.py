"""`seamark demo`: a small fleet of real servers, and chapters that lead through it.

A chapter is a value: its title, what it needs, and its acts. A new one is a module in `chapters/` and a line in
`chapters/__init__.py`.
"""
