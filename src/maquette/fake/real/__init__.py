"""Fakes and real data: data kept beside fakes, and what operators do held to what is said."""
