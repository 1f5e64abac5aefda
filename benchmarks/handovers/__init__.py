"""What is delivered twice when groups change."""
