"""What went wrong in production? Who owns it, how to go back, and which golden task guards against it now."""
