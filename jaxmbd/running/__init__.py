"""One run: read what was asked for, start, loop, keep what is to be saved, differentiate."""
