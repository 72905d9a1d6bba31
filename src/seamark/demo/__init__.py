"""`seamark demo`: a small fleet of real servers, and chapters that demonstrate seamark with it.

A chapter is a value: its title, its requirements, and its acts. A new chapter is a module in `chapters/` and a line in
`chapters/__init__.py`.
"""
