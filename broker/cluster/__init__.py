"""How the broker stands among others: nameservers, routes, announcements, twins."""
