"""Other projects' names over byoc's own objects: code written for them runs here. Nothing of byoc imports this."""
