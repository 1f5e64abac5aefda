"""What the broker does with more requests than it can serve in time (BrokerFastFailure).

One loop has no queue of requests; what waits are bytes in the sockets, for the loop to come round.
`lateness.py` says how late it came, `refusing.py` refuses the sends that waited for too long, so
that their producers go elsewhere, and `unread.py` keeps the sockets' queues as short as the broker
can serve in time.
"""
