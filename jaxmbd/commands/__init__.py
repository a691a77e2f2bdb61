"""The commands of the command line that fill a file, and what commands share."""
