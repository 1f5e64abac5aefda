"""Be a member of a consumer group: shares, locks, releases and committed offsets."""
