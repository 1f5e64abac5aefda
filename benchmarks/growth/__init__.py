"""What cost grows with: topics, held pulls, members, groups, the log, batches and bodies."""
