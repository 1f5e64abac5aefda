"""What a log has lost, and what becomes of the rest: damaged spans, from finding to setting aside.

Recovery steps over a span that cannot be read and goes on behind it; nothing here removes a byte
that was ever a message.
"""
