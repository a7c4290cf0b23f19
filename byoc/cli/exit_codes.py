"""What a command line gives the shell; every command's page of the documentation says when."""

EXIT_OK, EXIT_INTERNAL, EXIT_USER, EXIT_MACHINE = 0, 1, 2, 3
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141  # 128 and the number of the signal
