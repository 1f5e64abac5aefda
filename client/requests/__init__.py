"""Ask by a message and be answered by one."""
