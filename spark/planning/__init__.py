"""From what was asked to pieces of work: which queues, from where to where, cut for tasks."""
