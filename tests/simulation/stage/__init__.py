"""What a run takes place on: invented time, processes, a network, and every way to the outside."""
