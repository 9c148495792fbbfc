"""Sources of pages: files of many kinds, read into pages one by one. `registry` names them; one module for each."""
