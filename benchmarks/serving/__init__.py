"""How the daemon serves many clients: fifty terminals, browsers, and other users under attack."""
