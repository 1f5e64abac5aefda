"""What is measured, and how it is built, started and stopped."""
