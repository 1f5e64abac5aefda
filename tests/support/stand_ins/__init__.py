"""What stands in for peers, environments and clocks."""
