"""Linear heads: trained on a grid, chosen by validation, stored, used again."""
