"""How the daemon serves many clients: terminals, browsers, scrapes, and users under attack."""
