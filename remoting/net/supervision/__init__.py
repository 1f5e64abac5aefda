"""What is between the process of a server and whoever started it."""
