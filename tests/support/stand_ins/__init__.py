"""What stands in for peers, surroundings and clocks."""
