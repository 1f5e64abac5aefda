"""The door to the operating system: files, maps, AIO, threads, and what a disk may refuse."""
