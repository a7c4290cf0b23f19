"""What several commands report: profiles of the virtual machine, and what became of quantized tensors."""
