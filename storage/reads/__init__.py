"""What a read hands out: records that are what their entries say, and notes of what is none."""
