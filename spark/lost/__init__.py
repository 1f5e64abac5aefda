"""What went away before it was read, each told once and by name.

Stores and queues that are not the ones that were read (`stamps.py`, `marks.py`,
`network_marks.py`), or became others before a task read them (`planned.py`, `network_planned.py`).
What exports tell beside that is theirs (`exports/lost_*.py`).
"""
