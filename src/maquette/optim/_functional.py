"""`torch.optim._functional`: the steps of optimizers as functions of lists. Names only."""

from maquette.optim.adadelta import adadelta
from maquette.optim.adagrad import adagrad
from maquette.optim.adam import adam
from maquette.optim.adamax import adamax
from maquette.optim.adamw import adamw
from maquette.optim.asgd import asgd
from maquette.optim.nadam import nadam
from maquette.optim.radam import radam
from maquette.optim.rmsprop import rmsprop
from maquette.optim.rprop import rprop
from maquette.optim.sgd import sgd
from maquette.optim.sparse_adam import sparse_adam

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]
