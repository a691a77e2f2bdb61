"""What acts on bodies: springs, bushings, loads, gravity, a user's own laws."""
