"""Who is connected and what they want: producers, consumer groups, their changes."""
