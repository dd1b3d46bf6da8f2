"""Docker objects: images, containers, networks, disks; the only users of the Docker SDK and of other programs."""
