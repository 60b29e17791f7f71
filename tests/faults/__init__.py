"""A campaign of random conversations over a link that breaks; see ``__main__``."""
