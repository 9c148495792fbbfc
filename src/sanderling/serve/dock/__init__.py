"""The dock: pools of tool servers behind one address."""
