"""Bodies and elements of one kind as one: evaluated by vmap, summed by body."""
