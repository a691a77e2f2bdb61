"""The motion of independent coordinates alone: their choice, the reduced equations, what methods on them share."""
