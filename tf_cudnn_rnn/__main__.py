"""The command line: `python -m tf_cudnn_rnn`, which is `tf-cudnn-rnn`, too."""

import sys

from tf_cudnn_rnn._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
