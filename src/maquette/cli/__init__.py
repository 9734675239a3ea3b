"""The command line: ``maquette plan | run | check | ops``."""
