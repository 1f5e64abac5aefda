"""The message store: one CommitLog, the ConsumeQueues derived from it, nothing of networking."""
