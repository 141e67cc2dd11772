"""The user's classes: families that need no registering, and what the program has registered."""
