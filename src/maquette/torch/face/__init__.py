"""How the names of torch are found: paths, modules that hand names on, absences, installation."""
