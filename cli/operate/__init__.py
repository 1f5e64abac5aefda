"""`aerobee topic`, `group`, `message` and their like: a cluster looked at and changed."""
