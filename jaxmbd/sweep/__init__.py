"""Many runs of one mechanism: which ones, in chunks of one compiled program, on disk, on a cluster."""
