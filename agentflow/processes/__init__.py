"""Processes of ours: started under a guard, so that none is left behind; and the end of their logs."""
