"""The array namespaces that hold the data of tensors."""
