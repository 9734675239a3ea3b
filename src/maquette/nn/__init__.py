from maquette.nn.base import Module
from maquette.nn.parameter import Parameter, Buffer
