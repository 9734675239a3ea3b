"""Room of maquette; see CONTRIBUTING.md for what lives where."""
