"""`torch.utils.data.datapipes.utils`: files, streams, decoders and snapshots for pipes."""
