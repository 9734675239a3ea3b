"""`torch.save` and `torch.load`: pickles, records in archives, files of old, storages."""
