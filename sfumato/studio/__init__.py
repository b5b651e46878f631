"""The studio: a local page for custodians. It shows what the verbs give, and holds no logic of privacy."""
