"""ONNX files, damaged by bytes and by structure, or as coverage says, through the importer."""
