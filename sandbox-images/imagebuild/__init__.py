"""The offline path: OCI archives from Debian packages and wheels, where no container registry is reached."""
