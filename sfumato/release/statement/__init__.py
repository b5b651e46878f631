"""The privacy statement: made, worded, and derived again."""
