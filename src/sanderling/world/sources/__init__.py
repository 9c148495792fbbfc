"""Sources of pages: files of many kinds, read into pages one by one. `kinds` names them; one module for each."""
