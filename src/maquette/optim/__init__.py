"""`torch.optim`: optimizers and learning rate schedulers. Names only."""

from maquette.optim import _functional as _functional
from maquette.optim import adafactor as _adafactor  # noqa: F401  # PyTorch's name of the module
from maquette.optim import lr_scheduler, swa_utils
from maquette.optim import muon as _muon  # noqa: F401  # likewise
from maquette.optim.adadelta import Adadelta
from maquette.optim.adafactor import Adafactor
from maquette.optim.adagrad import Adagrad
from maquette.optim.adam import Adam
from maquette.optim.adamax import Adamax
from maquette.optim.adamw import AdamW
from maquette.optim.asgd import ASGD
from maquette.optim.lbfgs import LBFGS
from maquette.optim.muon import Muon
from maquette.optim.nadam import NAdam
from maquette.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    swap_in_optimizer_params_and_state,
)
from maquette.optim.radam import RAdam
from maquette.optim.rmsprop import RMSprop
from maquette.optim.rprop import Rprop
from maquette.optim.sgd import SGD
from maquette.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
