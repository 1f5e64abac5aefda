"""What is kept in `config`: topics, groups, committed offsets, and their files."""
