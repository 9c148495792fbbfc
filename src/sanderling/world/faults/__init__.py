"""A world that misbehaves: profiles of faults as data, and the world around a world that meets them."""
