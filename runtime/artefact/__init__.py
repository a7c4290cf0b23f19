"""The artefact: its members, manifest, seal and signature, read as somebody else's."""
