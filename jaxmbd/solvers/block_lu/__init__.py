"""LU factors of matrices that consist of few small blocks, and solves with them."""
