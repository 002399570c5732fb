"""How other libraries store the weights of a network; `tf_cudnn_rnn.weights` is the door."""
