"""Values in, text out: tables, json, yaml, csv and names, safe for a terminal.

Nothing here asks a server. What a person sees is built as lines of spans, and spans are escaped in
one place, so no value from outside reaches a terminal raw.
"""
