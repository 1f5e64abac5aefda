"""`aerobee demo`: a cluster at work, then its log counted by Spark."""
