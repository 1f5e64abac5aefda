"""When and how log and queues come to the disk, what a failure costs, and what may go."""
