"""For how long members' handlers have been at work, as far as it can be proved from here.

A hand-over waits for handlers that will end soon (`draining.py`), so it has to tell those that take
long from quick ones with much to do. The age of a message does not tell: it may wait for a thread.
But a Java consumer has one pool of threads for a group, which takes messages in the order in which
they were fetched, whatever their queues. So

- where one is finished that was fetched later, those fetched before have begun;
- where it holds no more messages than it has threads, all of them have.

The former shows in its pulls and commits; for the latter a member that seems to lag is asked (307).
`history.py` draws these conclusions for one member, `sampling.py` looks at all of them.
"""
