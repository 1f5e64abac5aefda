"""What the broker does with reads that have to wait for the disk: elsewhere, bounded and fair."""
