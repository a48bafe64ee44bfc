"""The controller: what decides and writes."""
