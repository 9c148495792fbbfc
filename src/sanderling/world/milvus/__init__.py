"""A world on Milvus: pages and both indexes on a server, for more pages than one machine searches well."""
