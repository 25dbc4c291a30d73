"""Model providers behind one port (R18). Provider SDKs are imported here and nowhere else."""
