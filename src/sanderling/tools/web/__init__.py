"""The live web as tools: a search engine and a page reader over HTTP, in the shapes of Serper and Jina Reader."""
