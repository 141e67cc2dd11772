"""What comparing two values is made of: their parts and places, the texts that show them, and a rule for each kind."""
