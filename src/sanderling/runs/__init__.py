"""What a run is: its directory, its locks, the files it reads and writes."""
