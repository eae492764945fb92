"""Read, check and write the weight files of models. A library without entry points.

headers      check that the names, shapes and dtypes of a file fit a network
layouts      find the weights in a checkpoint folder, in every layout that trainers and hubs write
torch_files  read the headers of a `torch.save` file without executing its pickle
tensors      read and write tensors, and merge adapters into them
critic       map features to values
activations  estimate activation memory per sample from layer shapes

Only `tensors` and `critic` import torch. No module depends on a particular network.
"""
