"""What stops motions: rows of Phi(q, t) = 0, or penalties in their place."""
