"""Arrays from and for files, and what the command line says of inputs."""
