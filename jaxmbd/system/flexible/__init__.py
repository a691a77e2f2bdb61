"""Bodies that deform."""
