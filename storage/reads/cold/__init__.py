"""Reads of what is not in memory: found out before a page is touched, and done beside the loop.

A page fault on a mapped file stops the thread that takes it until the disk has answered, and ends
the process where the disk answers with an error. So the broker's thread touches only pages that are
in memory (`disk/residency.py`). What is not is a `ColdRead`: it says which entries and records are
wanted (`request.py`), some other thread reads them with `pread` (`fetching.py`), where an error is
an exception, and the read is done again from those bytes. `file_lookup.py` looks things up in files
alone.
"""
