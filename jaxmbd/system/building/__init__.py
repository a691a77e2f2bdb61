"""From a model, which a person writes, to a system: checks, completion, what is wrong with it."""
