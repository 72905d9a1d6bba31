"""Skip a record that a sink connector can't process, and keep it in a dead letter queue.

In names of this package, `poison` is the record that the sink can't process, to `park` is to send it to the dead letter
topic, and `lent` keys are temporary values of the sink's config.
"""
