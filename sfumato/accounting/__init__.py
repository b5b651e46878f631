"""Pure privacy accounting: no torch, no files, no clock. Imports nothing else of Sfumato."""
