"""Every page of the project: one template engine, one charts module, numbers as people read them."""
