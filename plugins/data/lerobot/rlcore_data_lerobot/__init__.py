"""Read and write LeRobot data sets, versions 2.0, 2.1 and 3.0."""
