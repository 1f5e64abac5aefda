"""When and how log and queues come to the disk, and what a failure costs."""
