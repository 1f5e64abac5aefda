"""What keeps a broker from doing its work: noticed, told once, shown while it lasts."""
