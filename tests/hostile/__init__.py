"""What an attacker would send, and a world that it could hurt."""
