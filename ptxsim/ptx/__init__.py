"""Reading: PTX, cubins and sources, and what follows from the text of a program alone."""
