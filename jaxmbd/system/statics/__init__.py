"""States of rest, small motions about them, and the fastest motions there are."""
