"""Which member owns which queue, and how it goes to the next without a message twice."""
