"""How the daemon serves many clients: pages for fifty terminals, scrapes, users under attack."""
