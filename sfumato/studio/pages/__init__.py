"""The pages: one file a subject, each a function that makes its routes."""
