"""Images and signals: files, regions and boxes, sums of patches, Fourier transforms."""
