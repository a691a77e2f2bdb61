"""What surfaces do to each other: pairs of shapes, normal laws, friction, also that in joints."""
