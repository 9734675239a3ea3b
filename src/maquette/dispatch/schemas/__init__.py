"""Schemas: the text parsed, arguments matched with it and converted, overloads chosen by it."""
