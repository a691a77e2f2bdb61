"""How time advances: one file a method, each a pure step."""
