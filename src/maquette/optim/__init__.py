"""`torch.optim`: optimizers and learning rate schedulers. Names only."""

from maquette.optim import lr_scheduler
from maquette.optim.adagrad import Adagrad
from maquette.optim.adam import Adam
from maquette.optim.adamw import AdamW
from maquette.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from maquette.optim.rmsprop import RMSprop
from maquette.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]
