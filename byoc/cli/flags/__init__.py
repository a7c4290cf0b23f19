"""Options that several commands share: files of backends, passes, generators, tuning, samples."""
