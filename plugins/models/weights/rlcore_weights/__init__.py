"""Read, check and write the weight files of models. A library without entry points.

headers      check that the names, shapes and dtypes of a file fit a network
layouts      find the weights in a checkpoint folder, in every layout that trainers and hubs write
torch_files  read what a file of `torch.save` holds, without running anything in it
tensors      read the tensors themselves, merge adapters into them, write them
critic       map features to values
activations  estimate activation memory per sample from layer shapes

All but `tensors` and `critic` are light. Knows nothing of any network.
"""
