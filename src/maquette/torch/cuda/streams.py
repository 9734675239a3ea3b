"""`torch.cuda.streams`: streams and events of a device that is not there."""

from maquette.torch.devices.streams import Event, Stream

__all__ = ["Event", "Stream"]
