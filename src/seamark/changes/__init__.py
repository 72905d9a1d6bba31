"""Plans of actions and steps, the executor, the journal, locks, undo and recovery.

Terms of this package:

- A *plan* lists *actions*. An action changes one resource, its *subject*, and is carried out by a sequence of *steps*,
  one request each. The code calls a step sequence a `lane`, and a step with its number a `task`.
- A *change* is a plan that is being applied. It has an ID, and its *entries* are in the *journal*.
- An *aspect* is one side of a subject, such as its config or state. An *image* is the JSON form of an aspect.
- An *intent* is the image before and the wanted image after a step. It is written to the journal before the request.
- An *outcome* is how a step ended. It is *unknown* if a request got no answer and its effect can't be observed.
- A *head* is the summary of a change. A *nonce* identifies the process that holds the change's locks.
- The *gate* is held briefly while a change begins or is taken over, so that only one process does that at a time.
- A *seal* is the keyed hash of a secret, which the journal stores in place of the secret.
"""
