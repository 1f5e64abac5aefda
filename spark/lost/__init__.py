"""What went away before it was read, each told once and by name.

Queues whose topics were deleted (`deleted.py`), stores that a pattern does not find any more
(`away.py`), stores and queues that are not the ones that were read (`stamps.py`, `marks.py`), or
became others while they were exported (`remade.py`) or before a micro-batch's tasks read them
(`planned.py`), and how an export tells of them (`reasons.py`, `telling.py`).
"""
