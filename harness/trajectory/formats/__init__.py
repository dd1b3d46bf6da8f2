"""One module per native log; each is a function that reads one file into a builder."""
