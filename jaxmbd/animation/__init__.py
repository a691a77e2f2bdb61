"""Moving pictures of a run: a scene of nodes that move, written as an animated glTF, shown by a web page, filmed by a browser."""
