"""How updated weights reach whoever samples: one file for each way."""
