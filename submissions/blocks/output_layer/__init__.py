"""Reading the labels of a batch off the gradient of the output layer."""
