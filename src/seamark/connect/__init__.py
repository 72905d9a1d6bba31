"""Connect's REST API: wire models, client, capabilities by version, what an answer means.

client.py      what can be asked, one method each
caller.py      one call from first attempt to answer: fail-over, pauses, deadline
answers.py     what an answer means, and the table of the rules
transport.py   one HTTP request and nothing else
wire.py        Connect's JSON as seamark's values
capability.py  what a worker of some version can do
"""
