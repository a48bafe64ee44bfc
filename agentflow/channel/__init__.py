"""The control channel: what runners and supervisors say to the controller, and how they connect to it."""
