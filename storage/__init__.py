"""The message store: one CommitLog, the ConsumeQueues derived from it, and nothing about networking."""
