"""What commands tell beside their own: profiles of the virtual machine, and what became of quantized tensors."""
