"""The demonstration: a small pipeline without a network, and the driver that kills it and lets it go on."""
