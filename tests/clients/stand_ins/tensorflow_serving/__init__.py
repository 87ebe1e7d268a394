"""The messages of TensorFlow Serving, which another client brings along."""
