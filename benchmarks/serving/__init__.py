"""How the daemon serves many clients: pages for fifty terminals, and other users under attack."""
