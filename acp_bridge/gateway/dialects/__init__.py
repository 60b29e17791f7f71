"""The gateway protocols that the bridge speaks, each without I/O."""
